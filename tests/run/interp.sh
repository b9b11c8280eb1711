#!/bin/bash
# SPDX-License-Identifier: MIT
# The interpreter as the engine: a boot, a VM's unit tests, the core selftests.
set -u
cd "$(dirname "$0")/../.." || exit 2
export LOCUM_SET=engine=interp
export B=${B:-build/rel}
bad=0
BOOTS=1 tests/run/boot.sh
rc=$?
[ $rc = 0 ] || [ $rc = 77 ] || bad=1
tests/run/selftests.sh set_sregs_test sync_regs_test userspace_io_test state_test cpuid_test debug_regs \
	cr4_cpuid_sync_test userspace_msr_exit_test kvm_clock_test tsc_msrs_test xapic_state_test \
	set_memory_region_test dirty_log_test
rc=$?
[ $rc = 0 ] || [ $rc = 77 ] || bad=1
exit $bad
