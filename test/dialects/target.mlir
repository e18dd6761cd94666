// RUN: vta-opt %s --verify-roundtrip | filecheck %s

// A preset by its name; what differs from it follows, and only that is printed.
// CHECK:  preset = #target.vta<"pynq">
// CHECK:  other = #target.vta<"sim", log_batch = 2, log_block = 3, alu_mul = false>
// CHECK:  same = #target.vta<"chisel-de10">
// CHECK:  weights = #vtac.resource<"conv1.weight", "0123456789abcdef">
"test.op"() {
  preset = #target.vta<"pynq">,
  other = #target.vta<"sim", log_batch = 2, log_block = 3, alu_mul = false>,
  same = #target.vta<"chisel-de10", uop_entries = 2048, token_depth = 255>,
  weights = #vtac.resource<"conv1.weight", "0123456789abcdef">
} : () -> ()
