// RUN: vta-opt %s -p vta-split-loads | filecheck %s

// 40 tiles of 32 beats make three pieces. Inputs, short loads and several rows stay as they are.
// CHECK:      vta.load wgt sram 8 from @w dram 4 size [1, 13] stride 13
// CHECK-NEXT: vta.load wgt sram 21 from @w dram 17 size [1, 13] stride 13
// CHECK-NEXT: vta.load wgt sram 34 from @w dram 30 size [1, 14] stride 14
// CHECK-NEXT: vta.load wgt sram 0 from @w dram 0 size [1, 16] stride 16
// CHECK-NEXT: vta.load wgt sram 0 from @w dram 0 size [2, 20] stride 20
// CHECK-NEXT: vta.load inp sram 0 from @w dram 0 size [1, 400] stride 400
vta.program @f attributes {vtac.target = #target.vta<"chisel-pynq">} {
  vta.buffer @w input index 0 bytes 16384 align 256
  vta.load wgt sram 8 from @w dram 4 size [1, 40] stride 40
  vta.load wgt sram 0 from @w dram 0 size [1, 16] stride 16
  vta.load wgt sram 0 from @w dram 0 size [2, 20] stride 20
  vta.load inp sram 0 from @w dram 0 size [1, 400] stride 400
  vta.finish
}

// A port of 4 bytes takes 64 beats for a tile: pieces have 4,096 bytes, 16 tiles, here too.
// CHECK:      vta.load wgt sram 0 from @w dram 0 size [1, 16] stride 16
// CHECK-NEXT: vta.load wgt sram 16 from @w dram 16 size [1, 16] stride 16
// CHECK-NEXT: vta.finish
vta.program @narrow attributes {vtac.target = #target.vta<"chisel-pynq", port_bytes = 4>} {
  vta.buffer @w input index 0 bytes 16384 align 256
  vta.load wgt sram 0 from @w dram 0 size [1, 32] stride 32
  vta.finish
}
