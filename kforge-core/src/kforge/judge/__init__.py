"""The judge: trusted processes that hold the reference, the answers and the clock, and the worker that holds neither."""
