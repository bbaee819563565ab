/* SPDX-License-Identifier: MIT */
/* For tests that have preload/user.c, and no preload/fault.c: the kernel is asked. */
_Atomic bool iw_faults;
__thread uint8_t iw_faults_way __attribute__((tls_model("initial-exec")));
enum iw_faults_way iw_faults_ask(void) { return IW_FAULTS_BLOCKED; }
int iw_touch_read(uintptr_t a) { return 1; }
int iw_touch_write(uintptr_t a) { return 1; }
