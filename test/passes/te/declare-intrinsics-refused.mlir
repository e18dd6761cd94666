// RUN: not vta-opt %s -p te-declare-intrinsics 2>&1 | filecheck %s

builtin.module {
}
// CHECK: module: it has no vtac.target
