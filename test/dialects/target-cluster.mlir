// RUN: vta-opt %s --verify-roundtrip | filecheck %s
// RUN: echo '"test.op"() {t = #target.cluster<cores = 99, gb_bytes = 3>} : () -> ()' | not vta-opt 2>&1 | filecheck %s --check-prefix=BAD

// What is not said is as in cluster-8.
// CHECK:  four = #target.cluster<core = #target.vta<"chisel-pynq">, cores = 4, gb_bytes = 65536, dma = false, gb_banks = 16>
// BAD-DAG: cores must be 1 to 15, not 99
// BAD-DAG: gb_bytes must be a multiple of 4096
"test.op"() {
  four = #target.cluster<cores = 4, gb_bytes = 65536, dma = false, gb_banks = 16>
} : () -> ()
