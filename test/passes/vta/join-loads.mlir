// RUN: vta-opt %s -p vta-join-loads --split-input-file | filecheck %s

// The first product needs both pieces: one load.
// CHECK-LABEL: @joined
// CHECK:         vta.load wgt sram 0 from @w dram 4 size [1, 20] stride 20
// CHECK-NEXT:    vta.load inp
// CHECK-NEXT:    vta.gemm
vta.program @joined attributes {vtac.target = #target.vta<"chisel-pynq">} {
  vta.buffer @w input index 0 bytes 16384 align 256
  vta.buffer @x input index 1 bytes 1024 align 256
  vta.load wgt sram 0 from @w dram 4 size [1, 13] stride 13
  vta.load wgt sram 13 from @w dram 17 size [1, 7] stride 7
  vta.load inp sram 0 from @x dram 0 size [1, 1] stride 1
  vta.gemm micro_ops <[0, 0, 0]> loops [1, 20] wgt [0, 1]
  vta.finish
}

// -----

// The first product needs the first piece alone, and can start with it.
// CHECK-LABEL: @apart
// CHECK:         vta.load wgt sram 0 from @w dram 4 size [1, 13] stride 13
// CHECK-NEXT:    vta.load wgt sram 13 from @w dram 17 size [1, 7] stride 7
vta.program @apart attributes {vtac.target = #target.vta<"chisel-pynq">} {
  vta.buffer @w input index 0 bytes 16384 align 256
  vta.buffer @x input index 1 bytes 1024 align 256
  vta.load inp sram 0 from @x dram 0 size [1, 1] stride 1
  vta.load wgt sram 0 from @w dram 4 size [1, 13] stride 13
  vta.load wgt sram 13 from @w dram 17 size [1, 7] stride 7
  vta.gemm micro_ops <[0, 0, 0]> loops [1, 13] wgt [0, 1]
  vta.gemm micro_ops <[0, 0, 13]> loops [1, 7] wgt [0, 1]
  vta.finish
}

// -----

// The place of the second piece is free later than that of the first.
// CHECK-LABEL: @occupied
// CHECK:         vta.load wgt sram 0 from @w dram 4 size [1, 13] stride 13
// CHECK:         vta.load wgt sram 13 from @w dram 17 size [1, 7] stride 7
vta.program @occupied attributes {vtac.target = #target.vta<"chisel-pynq">} {
  vta.buffer @w input index 0 bytes 16384 align 256
  vta.buffer @x input index 1 bytes 1024 align 256
  vta.load inp sram 0 from @x dram 0 size [1, 1] stride 1
  vta.load wgt sram 13 from @w dram 0 size [1, 4] stride 4
  vta.load wgt sram 0 from @w dram 4 size [1, 13] stride 13
  vta.gemm micro_ops <[0, 0, 13]> loops [1, 4] wgt [0, 1]
  vta.load wgt sram 13 from @w dram 17 size [1, 7] stride 7
  vta.gemm micro_ops <[0, 0, 0]> loops [1, 20] wgt [0, 1]
  vta.finish
}

// -----

// The compute module loads accumulators meanwhile, which is served between the two.
// CHECK-LABEL: @beside
// CHECK:         vta.load wgt sram 0 from @w dram 4 size [1, 13] stride 13
// CHECK-NEXT:    vta.load wgt sram 13 from @w dram 17 size [1, 7] stride 7
vta.program @beside attributes {vtac.target = #target.vta<"chisel-pynq">} {
  vta.buffer @w input index 0 bytes 16384 align 256
  vta.buffer @b input index 1 bytes 1024 align 256
  vta.load wgt sram 0 from @w dram 4 size [1, 13] stride 13
  vta.load wgt sram 13 from @w dram 17 size [1, 7] stride 7
  vta.load acc sram 0 from @b dram 0 size [1, 1] stride 1
  vta.gemm micro_ops <[0, 0, 0]> loops [1, 20] wgt [0, 1]
  vta.finish
}
