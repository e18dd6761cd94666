"""Writes the ONNX model that a text describes: ``from_text.py MODEL.onnx.txt MODEL.onnx``."""

import sys
from pathlib import Path

import onnx.parser

if __name__ == "__main__":
    text, model = map(Path, sys.argv[1:])
    model.write_bytes(onnx.parser.parse_model(text.read_text()).SerializeToString())
