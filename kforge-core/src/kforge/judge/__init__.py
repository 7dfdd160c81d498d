"""The judge: trusted processes that hold reference, answers and clock, and the worker that holds none of them."""
