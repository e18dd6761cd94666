// RUN: vta-opt %s -p vta-insert-semaphores | filecheck %s
// RUN: vta-opt %s -p vta-stage-weights,vta-insert-semaphores | filecheck %s --check-prefix=STAGED

// Core 1 reads what core 0 has written: a signal behind the store, a wait in front of the load.
// CHECK:      vta.buffer @semaphores semaphore bytes 576 align 64
// CHECK-NEXT: vta.core 0 {
// CHECK:        vta.store %{{.*}} sram 0 to @t dram 0
// CHECK-NEXT:   vta.store sram 0 to @semaphores dram 12 size [1, 1] stride 12
// CHECK-NEXT:   vta.finish
// CHECK:      vta.core 1 {
// CHECK-NEXT:   [[W:%[a-z0-9_]+]] = vta.alloc site 1 slots 1 size 1 : !vta.sram<inp>
// CHECK-NEXT:   vta.load inp [[W]] sram 0 from @semaphores dram 12 size [1, 1] stride 4
// CHECK:        vta.load inp %{{.*}} sram 0 from @t dram 0
// CHECK-NOT:  vta.step

// Both cores read the weights, so the DMA copies them once. Core 1 waits for core 0, which has
// waited for the copy.
// STAGED:     vta.buffer @w_staged scratch in "gb" offset 0 live [0, 1] bytes 8192 align 256
// STAGED:     vta.load inp %{{.*}} sram 0 from @semaphores dram 8 size [1, 1] stride 4
// STAGED:     vta.load wgt %{{.*}} sram 0 from @w_staged dram 0
// STAGED:     vta.core 1 {
// STAGED:     vta.load inp %{{.*}} sram 0 from @semaphores dram 12 size [1, 1] stride 4
// STAGED:     vta.dma {
// STAGED-NEXT:  vta.copy @w offset 0 to @w_staged offset 0 bytes 8192
// STAGED-NEXT:  vta.signal to 0
// STAGED-NEXT: }
vta.cluster @f attributes {vtac.target = #target.cluster<core = #target.vta<"pynq">, cores = 2, gb_bytes = 65536, dma = true>} {
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
