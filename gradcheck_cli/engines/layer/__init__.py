"""What the engines share for layers that users wrote: loading, binding, recording."""
