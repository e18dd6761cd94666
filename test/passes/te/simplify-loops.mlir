// RUN: vta-opt %s -p te-simplify-loops | filecheck %s

te.kernel @k(%x: memref<1x8x2xi8, #te.scope<dram>>, %y: memref<1x8x2xi8, #te.scope<dram>>) {
  te.for "n" [%n : %n_n] in [0 : 1] {
    te.for "h" [%h : %h_n] in [0 : 8] step 3 {
      te.for "c" [%c : %c_n] in [0 : 2] {
        %s, %s_n = te.span [%h : %h_n] + 2 * [%n : %n_n] + [-1 : 3] within 8
        %b = te.alloc [%n : %n_n, %s : %s_n, %c : %c_n] : memref<1x8x2xi8, #te.scope<inp>>
        te.copy %x to %b
        te.for "n" [%m : %m_n] in [%n : %n_n] {
          te.for "c" [%d : %d_n] in [%c : %c_n] {
            te.for "h" [%i : %i_n] in [%h : %h_n] step 2 {
              te.update "y" %y[%m, %i, %d] ins (%b[%m, %i + 3 * %n, %c]) {
              ^bb0(%a: i8):
                te.yield %a : i8
              }
            }
          }
        }
      }
    }
  }
  te.yield
}
// The loop over "n" runs once; so do the inner ones over a tile of "n" and one of "c". The inner
// loop over "h" takes steps of 2 through tiles of 3, and stays.
// CHECK:      te.for "h" [%h : %h_n] in [0 : 8] step 3 {
// CHECK-NEXT:   te.for "c" [%c : %c_n] in [0 : 2] {
// CHECK-NEXT:     %s, %s_n = te.span [%h : %h_n] + [-1 : 3] within 8
// CHECK-NEXT:     %b = te.alloc [0 : 1, %s : %s_n, %c : %c_n] : memref<1x8x2xi8, #te.scope<inp>>
// CHECK-NEXT:     te.copy %x to %b
// CHECK-NEXT:     te.for "h" [%i : %i_n] in [%h : %h_n] step 2 {
// CHECK-NEXT:       te.update "y" %y[0, %i, %c] ins (%b[0, %i, %c]) {
