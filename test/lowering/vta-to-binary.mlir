// RUN: vta-translate --encode %s -o %t.npz
// RUN: vta-translate --decode %t.npz | filecheck %s
// RUN: vta-translate --disassemble %t.npz | filecheck %s --check-prefix LISTING

// The text comes back: names of buffers and kernels, tokens, an order that loads once and reloads.
// CHECK:       vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
// CHECK-NEXT:    vta.buffer @image input index 0 bytes 1024 align 256
// CHECK-NEXT:    vta.buffer @answer output index 0 bytes 1024 align 256
// CHECK-NEXT:    vta.buffer @uops micro_ops bytes 16 align 256 kernels [@first, @second, @first]
// CHECK-NEXT:    vta.kernel @first <[0, 0, 0]>
// CHECK-NEXT:    vta.kernel @second <[3, 1, 2], [4, 1, 5]>
// CHECK-NEXT:    vta.load uop sram 0 from @uops dram 0 size [1, 3] stride 3{{$}}
// CHECK-NEXT:    vta.load inp sram 8 from @image dram 4 size [2, 4] stride 8 pads [1, 0, 0, 2] push_next{{$}}
// CHECK-NEXT:    vta.gemm reset kernel @first uops [0, 1] loops [2, 3] dst [3, 1]{{$}}
// CHECK-NEXT:    vta.gemm kernel @second uops [1, 3] loops [1, 2] src [0, 8] pop_prev{{$}}
// CHECK-NEXT:    vta.load uop sram 0 from @uops dram 3 size [1, 1] stride 1{{$}}
// CHECK-NEXT:    vta.alu shr imm -2 kernel @first uops [0, 1] loops [1, 6] dst [0, 1] src [0, 1] push_next{{$}}
// CHECK-NEXT:    vta.store sram 0 to @answer dram 8 size [1, 6] stride 6 pop_prev push_prev{{$}}
// CHECK-NEXT:    vta.finish pop_next{{$}}

// LISTING: LOAD UOP sram 0
// LISTING: LOAD INP sram 8 dram 4 size 2x4 stride 8 pads (1, 0, 0, 2) push_next
// LISTING: GEMM reset uops [0, 1) loops 2x3 dst +(3, 1)
// LISTING: ALU SHR imm -2
// LISTING: STORE OUT
// LISTING: FINISH pop_next
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @image input index 0 bytes 1024 align 256
  vta.buffer @answer output index 0 bytes 1024 align 256
  vta.buffer @uops micro_ops bytes 16 align 256 kernels [@first, @second, @first]
  vta.kernel @first <[0, 0, 0]>
  vta.kernel @second <[3, 1, 2], [4, 1, 5]>
  vta.load uop sram 0 from @uops dram 0 size [1, 3] stride 3
  vta.load inp sram 8 from @image dram 4 size [2, 4] stride 8 pads [1, 0, 0, 2] push_next
  vta.gemm reset kernel @first uops [0, 1] loops [2, 3] dst [3, 1]
  vta.gemm kernel @second uops [1, 3] loops [1, 2] src [0, 8] pop_prev
  vta.load uop sram 0 from @uops dram 3 size [1, 1] stride 1
  vta.alu shr imm -2 kernel @first uops [0, 1] loops [1, 6] dst [0, 1] src [0, 1] push_next
  vta.store sram 0 to @answer dram 8 size [1, 6] stride 6 pop_prev push_prev
  vta.finish pop_next
}
