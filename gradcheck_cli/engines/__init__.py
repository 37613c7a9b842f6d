"""The engines: one file each, behind one protocol, found through entry points (`registry`)."""
