// RUN: vta-opt %s -p vta-drop-loads | filecheck %s

// Of four tiles of weights the GEMM reads the two of the first load; the second load is overwritten
// by the third before anything reads it, and nothing reads the third. The wait stays.
// CHECK-LABEL: vta.cluster @f
// CHECK:       vta.core 0 {
// CHECK-NEXT:    vta.load inp sram 9 from @s dram 8 size [1, 1] stride 4
// CHECK-NEXT:    vta.load inp sram 0 from @x dram 0 size [1, 4] stride 4
// CHECK-NEXT:    vta.load wgt sram 0 from @w dram 0 size [1, 2] stride 2
// CHECK-NEXT:    vta.gemm
// CHECK-NEXT:    vta.finish
vta.cluster @f attributes {vtac.target = #target.cluster<core = #target.vta<"pynq">, cores = 2, gb_bytes = 0, dma = false>} {
  vta.buffer @x input index 0 bytes 64 align 256
  vta.buffer @w constant bytes 1024 align 256 value #vtac.resource<"w", "0123456789abcdef">
  vta.buffer @s semaphore bytes 576 align 64
  vta.core 0 {
    vta.load inp sram 9 from @s dram 8 size [1, 1] stride 4
    vta.load inp sram 0 from @x dram 0 size [1, 4] stride 4
    vta.load wgt sram 0 from @w dram 0 size [1, 2] stride 2
    vta.load wgt sram 2 from @w dram 2 size [1, 1] stride 1
    vta.load wgt sram 2 from @w dram 3 size [1, 1] stride 1
    vta.gemm micro_ops <[0, 0, 0]> loops [2, 1] dst [1, 0] src [1, 0] wgt [1, 0]
    vta.finish
  }
  vta.core 1 {
    vta.finish
  }
}

// A program for one core is left as it is.
// CHECK-LABEL: vta.program @g
// CHECK:       vta.load wgt
vta.program @g attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @w constant bytes 1024 align 256 value #vtac.resource<"w", "0123456789abcdef">
  vta.load wgt sram 0 from @w dram 0 size [1, 2] stride 2
  vta.finish
}
