"""vtac: an MLIR-style compiler from ONNX models to VTA, and a simulator of the machine."""
