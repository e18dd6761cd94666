// RUN: vta-opt %s -p vta-strip-names --print-debuginfo | filecheck %s

// Names become numbers, equal kernels one, locations unknown; declarations come first.
// CHECK:       vta.program @p
// CHECK-NEXT:    vta.buffer @b0 input index 0
// CHECK-NEXT:    vta.buffer @b1 micro_ops bytes 8 align 256 kernels [@u0, @u0]
// CHECK-NEXT:    vta.kernel @u0 <[0, 0, 0]>
// CHECK-NEXT:    vta.load uop sram 0 from @b1 dram 0 size [1, 2] stride 2 loc(unknown)
// CHECK-NEXT:    vta.load inp sram 0 from @b0 dram 0 size [1, 1] stride 1 loc(unknown)
// CHECK-NEXT:    vta.gemm reset kernel @u0 uops [1, 2] loops [1, 1] loc(unknown)
// CHECK-NEXT:    vta.finish
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.kernel @first <[0, 0, 0]>
  vta.kernel @second <[0, 0, 0]>
  vta.buffer @image input index 0 bytes 1024 align 256
  vta.buffer @micro_ops micro_ops bytes 8 align 256 kernels [@first, @second]
  vta.load uop sram 0 from @micro_ops dram 0 size [1, 2] stride 2
  vta.load inp sram 0 from @image dram 0 size [1, 1] stride 1 loc("conv")
  vta.gemm reset kernel @second uops [1, 2] loops [1, 1] loc("conv")
  vta.finish
}

// Nothing to do.
// CHECK:       vta.program @stripped
// CHECK-NEXT:    vta.buffer @b0 scratch
// CHECK-NEXT:    vta.finish
vta.program @stripped attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @b0 scratch bytes 64 align 64
  vta.finish
}
