// RUN: vta-opt %s -p vta-place-scratch --split-input-file --verify-diagnostics | filecheck %s

// The largest lies first. @b is alive with it and lies behind; @c and @d are alive after it, and fill
// its place. What has no lifetime, and what is no scratch, gets an address of its own.
// CHECK-LABEL: vta.program @p
// CHECK-NEXT:    vta.buffer @x input index 0 bytes 64 align 64
// CHECK-NEXT:    vta.buffer @a scratch in "dram" offset 0 live [0, 1] bytes 4096 align 256
// CHECK-NEXT:    vta.buffer @b scratch in "dram" offset 4096 live [1, 2] bytes 1000 align 256
// CHECK-NEXT:    vta.buffer @c scratch in "dram" offset 0 live [2, 3] bytes 900 align 256
// CHECK-NEXT:    vta.buffer @d scratch in "dram" offset 1024 live [3, 3] bytes 300 align 256
// CHECK-NEXT:    vta.buffer @e scratch bytes 64 align 256
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @x input index 0 bytes 64 align 64
  vta.buffer @a scratch live [0, 1] bytes 4096 align 256
  vta.buffer @b scratch live [1, 2] bytes 1000 align 256
  vta.buffer @c scratch live [2, 3] bytes 900 align 256
  vta.buffer @d scratch live [3, 3] bytes 300 align 256
  vta.buffer @e scratch bytes 64 align 256
  vta.finish
}

// -----

// A place that is given stays, and others keep away from it.
// CHECK-LABEL: vta.program @given
// CHECK-NEXT:    vta.buffer @a scratch in "dram" offset 256 live [0, 1] bytes 256 align 256
// CHECK-NEXT:    vta.buffer @b scratch in "dram" offset 512 live [1, 2] bytes 512 align 256
// CHECK-NEXT:    vta.buffer @c scratch in "dram" offset 0 live [0, 0] bytes 100 align 256
vta.program @given attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @a scratch in "dram" offset 256 live [0, 1] bytes 256 align 256
  vta.buffer @b scratch live [1, 2] bytes 512 align 256
  vta.buffer @c scratch live [0, 0] bytes 100 align 256
  vta.finish
}
