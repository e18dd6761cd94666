// RUN: vta-opt %s -p 'vta-stage-weights{early=true}' | filecheck %s
// RUN: vta-opt %s -p vta-stage-weights | filecheck %s --check-prefix=LATE

// While a core computes step 0, the weights of its step 2 are read beside those of step 0: DDR has
// time for them, and WGT has room. They are not copied if cores are taken to read ahead.
// CHECK-LABEL: vta.cluster @beside
// LATE-LABEL: vta.cluster @beside
// CHECK-NOT:  _staged
// LATE:       vta.copy @w offset 0 to @w_staged offset 0 bytes 8192
vta.cluster @beside attributes {vtac.target = #target.cluster<core = #target.vta<"pynq">, cores = 2, gb_bytes = 65536, dma = true>} {
  vta.buffer @y output index 0 bytes 256 align 256
  vta.buffer @w constant bytes 8192 align 256 value #vtac.resource<"w", "0123456789abcdef">
  vta.buffer @u constant bytes 262144 align 256 value #vtac.resource<"u", "0123456789abcdef">
  vta.buffer @t scratch in "dram" offset 0 live [0, 2] bytes 256 align 256
  vta.core 0 {
    vta.step 0
    %v = vta.alloc site 0 slots 1 size 4 : !vta.sram<wgt>
    vta.load wgt %v sram 0 from @u dram 0 size [1, 4] stride 4
    %a = vta.alloc site 1 slots 1 size 16 : !vta.sram<acc>
    vta.gemm reset %a micro_ops <[0, 0, 0]> loops [4096, 16] dst [0, 1]
    vta.store %a sram 0 to @t dram 0 size [1, 16] stride 16
    vta.step 2
    %w = vta.alloc site 2 slots 1 size 32 : !vta.sram<wgt>
    vta.load wgt %w sram 0 from @w dram 0 size [1, 32] stride 32
    vta.finish
  }
  vta.core 1 {
    vta.step 1
    %x = vta.alloc site 0 slots 1 size 16 : !vta.sram<inp>
    vta.load inp %x sram 0 from @t dram 0 size [1, 16] stride 16
    vta.finish
  }
}

// The same, but the weights of step 0 fill WGT: those of step 2 can only be read when it is over.
// CHECK-LABEL: vta.cluster @no_room
// CHECK:      vta.copy @w offset 0 to @w_staged offset 0 bytes 8192
vta.cluster @no_room attributes {vtac.target = #target.cluster<core = #target.vta<"pynq">, cores = 2, gb_bytes = 65536, dma = true>} {
  vta.buffer @y output index 0 bytes 256 align 256
  vta.buffer @w constant bytes 8192 align 256 value #vtac.resource<"w", "0123456789abcdef">
  vta.buffer @u constant bytes 262144 align 256 value #vtac.resource<"u", "0123456789abcdef">
  vta.buffer @t scratch in "dram" offset 0 live [0, 2] bytes 256 align 256
  vta.core 0 {
    vta.step 0
    %v = vta.alloc site 0 slots 1 size 1024 : !vta.sram<wgt>
    vta.load wgt %v sram 0 from @u dram 0 size [1, 1024] stride 1024
    %a = vta.alloc site 1 slots 1 size 16 : !vta.sram<acc>
    vta.gemm reset %a micro_ops <[0, 0, 0]> loops [4096, 16] dst [0, 1]
    vta.store %a sram 0 to @t dram 0 size [1, 16] stride 16
    vta.step 2
    %w = vta.alloc site 2 slots 1 size 32 : !vta.sram<wgt>
    vta.load wgt %w sram 0 from @w dram 0 size [1, 32] stride 32
    vta.finish
  }
  vta.core 1 {
    vta.step 1
    %x = vta.alloc site 0 slots 1 size 16 : !vta.sram<inp>
    vta.load inp %x sram 0 from @t dram 0 size [1, 16] stride 16
    vta.finish
  }
}
