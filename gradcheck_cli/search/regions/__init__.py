"""Where a kind of failure happens: intervals and boxes, with a reason in words."""
