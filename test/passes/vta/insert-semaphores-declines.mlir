// RUN: vta-opt %s -p vta-insert-semaphores | filecheck %s

// Units that touch different bytes, or that only read, need no order: no buffer of semaphores, no
// signal and no wait. The marks of steps go.
// CHECK-LABEL: vta.cluster @apart
// CHECK-NOT:   semaphore
// CHECK-NOT:   vta.step
// CHECK:       vta.store %{{.*}} sram 0 to @y dram 0
// CHECK-NEXT:  vta.finish
// CHECK:       vta.core 1 {
// CHECK-NEXT:  vta.alloc
// CHECK-NEXT:  vta.load wgt
vta.cluster @apart attributes {vtac.target = #target.cluster<core = #target.vta<"pynq">, cores = 2, gb_bytes = 0, dma = false>} {
  vta.buffer @y output index 0 bytes 512 align 256
  vta.buffer @w constant bytes 8192 align 256 value #vtac.resource<"w", "0123456789abcdef">
  vta.core 0 {
    vta.step 0
    %w = vta.alloc site 0 slots 1 size 32 : !vta.sram<wgt>
    vta.load wgt %w sram 0 from @w dram 0 size [1, 32] stride 32
    %a = vta.alloc site 1 slots 1 size 16 : !vta.sram<acc>
    vta.store %a sram 0 to @y dram 0 size [1, 16] stride 16
    vta.finish
  }
  vta.core 1 {
    vta.step 1
    %w = vta.alloc site 0 slots 1 size 32 : !vta.sram<wgt>
    vta.load wgt %w sram 0 from @w dram 0 size [1, 32] stride 32
    %a = vta.alloc site 1 slots 1 size 16 : !vta.sram<acc>
    vta.store %a sram 0 to @y dram 16 size [1, 16] stride 16
    vta.finish
  }
}

// The order of one unit is that of its tokens.
// CHECK-LABEL: vta.cluster @alone
// CHECK-NOT:   semaphore
// CHECK:       vta.load inp
vta.cluster @alone attributes {vtac.target = #target.cluster<core = #target.vta<"pynq">, cores = 2, gb_bytes = 0, dma = false>} {
  vta.buffer @t scratch in "dram" offset 0 live [0, 1] bytes 256 align 256
  vta.core 0 {
    vta.step 0
    %a = vta.alloc site 1 slots 1 size 16 : !vta.sram<acc>
    vta.store %a sram 0 to @t dram 0 size [1, 16] stride 16
    vta.step 1
    %x = vta.alloc site 0 slots 1 size 16 : !vta.sram<inp>
    vta.load inp %x sram 0 from @t dram 0 size [1, 16] stride 16
    vta.finish
  }
  vta.core 1 {
    vta.finish
  }
}
