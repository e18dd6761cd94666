"""Tensor expressions written in Python become kernels of te.

The language is TVM's (Chen et al., "TVM: An Automated End-to-End Optimizing Compiler for Deep
Learning", section 4.1): a tensor is a shape and a function from indices to a scalar expression.
"""
