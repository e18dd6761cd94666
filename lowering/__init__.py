"""Conversions from one level of IR to the next, from ONNX to the bits of instructions."""
