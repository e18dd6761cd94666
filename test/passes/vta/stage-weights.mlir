// RUN: vta-opt %s -p vta-stage-weights | filecheck %s
// RUN: vta-opt %s -p 'vta-stage-weights{most=0}' | filecheck %s --check-prefix=NONE

// Both cores read the weights: they are copied once, before the step that reads them first. Steps are
// numbered anew, with the copy among them.
// CHECK-LABEL: vta.cluster @shared
// CHECK:      vta.buffer @w_staged scratch in "gb" offset 0 live [0, 1] bytes 8192 align 256
// CHECK:      vta.core 0 {
// CHECK-NEXT:   vta.step 1
// CHECK:        vta.load wgt %{{.*}} sram 0 from @w_staged dram 0
// CHECK:      vta.core 1 {
// CHECK-NEXT:   vta.step 2
// CHECK:        vta.load wgt %{{.*}} sram 0 from @w_staged dram 0
// CHECK:      vta.dma {
// CHECK-NEXT:   vta.step 0
// CHECK-NEXT:   vta.copy @w offset 0 to @w_staged offset 0 bytes 8192
// NONE-NOT:   w_staged
vta.cluster @shared attributes {vtac.target = #target.cluster<core = #target.vta<"pynq">, cores = 2, gb_bytes = 65536, dma = true>} {
  vta.buffer @y output index 0 bytes 256 align 256
  vta.buffer @w constant bytes 8192 align 256 value #vtac.resource<"w", "0123456789abcdef">
  vta.buffer @t scratch in "dram" offset 0 live [0, 1] bytes 256 align 256
  vta.core 0 {
    vta.step 0
    %w = vta.alloc site 0 slots 1 size 32 : !vta.sram<wgt>
    vta.load wgt %w sram 0 from @w dram 0 size [1, 32] stride 32
    %a = vta.alloc site 1 slots 1 size 16 : !vta.sram<acc>
    vta.store %a sram 0 to @t dram 0 size [1, 16] stride 16
    vta.finish
  }
  vta.core 1 {
    vta.step 1
    %x = vta.alloc site 0 slots 1 size 16 : !vta.sram<inp>
    vta.load inp %x sram 0 from @t dram 0 size [1, 16] stride 16
    %v = vta.alloc site 0 slots 1 size 32 : !vta.sram<wgt>
    vta.load wgt %v sram 0 from @w dram 0 size [1, 32] stride 32
    vta.finish
  }
}

// Without a copy engine nothing is staged.
// CHECK-LABEL: vta.cluster @no_dma
// CHECK-NOT:  _staged
vta.cluster @no_dma attributes {vtac.target = #target.cluster<core = #target.vta<"pynq">, cores = 2, gb_bytes = 65536, dma = false>} {
  vta.buffer @y output index 0 bytes 256 align 256
  vta.buffer @w constant bytes 8192 align 256 value #vtac.resource<"w", "0123456789abcdef">
  vta.buffer @t scratch in "dram" offset 0 live [0, 1] bytes 256 align 256
  vta.core 0 {
    vta.step 0
    %w = vta.alloc site 0 slots 1 size 32 : !vta.sram<wgt>
    vta.load wgt %w sram 0 from @w dram 0 size [1, 32] stride 32
    %a = vta.alloc site 1 slots 1 size 16 : !vta.sram<acc>
    vta.store %a sram 0 to @t dram 0 size [1, 16] stride 16
    vta.finish
  }
  vta.core 1 {
    vta.step 1
    %x = vta.alloc site 0 slots 1 size 16 : !vta.sram<inp>
    vta.load inp %x sram 0 from @t dram 0 size [1, 16] stride 16
    %v = vta.alloc site 0 slots 1 size 32 : !vta.sram<wgt>
    vta.load wgt %v sram 0 from @w dram 0 size [1, 32] stride 32
    vta.finish
  }
}

// A core that works alone, and reads its weights once, has DDR for itself.
// CHECK-LABEL: vta.cluster @alone
// CHECK-NOT:  _staged
vta.cluster @alone attributes {vtac.target = #target.cluster<core = #target.vta<"pynq">, cores = 2, gb_bytes = 65536, dma = true>} {
  vta.buffer @y output index 0 bytes 256 align 256
  vta.buffer @w constant bytes 8192 align 256 value #vtac.resource<"w", "0123456789abcdef">
  vta.buffer @t scratch in "dram" offset 0 live [0, 1] bytes 256 align 256
  vta.core 0 {
    vta.step 0
    %w = vta.alloc site 0 slots 1 size 32 : !vta.sram<wgt>
    vta.load wgt %w sram 0 from @w dram 0 size [1, 32] stride 32
    %a = vta.alloc site 1 slots 1 size 16 : !vta.sram<acc>
    vta.store %a sram 0 to @t dram 0 size [1, 16] stride 16
    vta.finish
  }
  vta.core 1 {
    vta.finish
  }
}
