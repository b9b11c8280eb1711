/* SPDX-License-Identifier: MIT */
/*
 * A vCPU's view of memory: linear addresses in, guest RAM or devices out.
 *
 * struct mmu is embedded in struct cpu.  The registers that govern paging are
 * kept here and nowhere else.  Everything runs on the vCPU's own thread;
 * other threads reach an mmu only through struct track_vcpu (mem/track.h).
 */
#ifndef LOCUM_MMU_MMU_H
#define LOCUM_MMU_MMU_H

#include "base/types.h"
#include "mem/mem.h"
#include "mmu/tlb.h"
#include "x86/exc.h"
#include "x86/regs.h"

/* Access flags, besides the size and direction that the function implies. */
#define ACC_SS BIT(0) /* stack segment: a non-canonical address is #SS, not #GP */
#define ACC_IMPLICIT \
	BIT(1)		  /* descriptor tables, TSS, IDT: supervisor, AC=0, at any CPL */
#define ACC_LOCKED BIT(2) /* first half of a locked read-modify-write */
#define ACC_ANY_ALIGN BIT(3) /* never #AC */

struct mmu;

/** struct mmu_ops - calls upward, filled in by the owner of the vCPU
 * @mmio: read into or write from @data, @n in 1..8 bytes, not crossing a page,
 *        at @gpa, where no writable (readable) RAM is.
 *        Return: EMUL_CONTINUE, or EMUL_IO when the client must act first;
 *        the instruction is then run again and asks again, in the same order.
 */
struct mmu_ops {
	enum emul (*mmio)(struct mmu *m, gpa_t gpa, void *data, unsigned n, bool write);
};

struct mmu {
	/* Hot: the tables of the current space and class (mmu/tlb.h). */
	struct tlb tlb;

	/* Registers.  Written only through mmu_set_*(). */
	u64 cr0, cr3, cr4, efer;
	u8 cpl;	       /* current privilege level, 0..3 */
	bool ac;       /* RFLAGS.AC: SMAP, alignment checks */
	u8 maxphyaddr; /* bits, 32..52, from CPUID */
	bool gbpages;  /* CPUID: 1G pages */
	bool amd;      /* what the makers do differently goes AMD's way */
	u8 space;      /* guest-physical space: 0 or MEM_SMM */
	u64 pdptr[4];  /* PAE: the four loaded PDPTEs */

	struct fault fault;	  /* of the last EMUL_FAULT */
	bool starved;		  /* the last EMUL_RETRY was for want of memory */
	struct mem *mem;	  /* guest-physical space, shared by the VM's vCPUs */
	struct track_vcpu *track; /* this vCPU's entry in it */
	const struct mmu_ops *ops;

	/* Data breakpoints: pages that hold one have no entries, so that every
	 * access is seen.  watch_hits: bit n set by an access to watch[n]. */
	struct mmu_watch {
		gva_t addr;
		u8 len; /* 1, 2, 4, 8 */
		bool reads, writes;
	} watch[4];
	u8 nwatch;
	u32 watch_hits;

	/* Last slot found, valid in its generation of the slot table. */
	struct memslot *last_slot;
	u64 last_generation; /* 0: none */
	u32 slots_seen;	     /* changes of the slot table that were served */

	/* Between mmu_rmw_begin() and mmu_rmw_end(). */
	struct {
		gva_t gva;
		unsigned n, acc;
		u8 *target_hva;	      /* contiguous RAM, else NULL */
		struct memslot *slot; /* page of it, if not found by an entry */
		u64 page;
		struct bpage *bp;
		u8 old[16];
	} rmw;
};

/**
 * mmu_init() - prepare @m for a new vCPU: real mode, empty TLB
 * @mem: outlives @m.  @ops: static.
 * @attn: the vCPU's attention word; other threads set ATTN_MEM in it
 * Return: 0 or -ENOMEM.
 */
int mmu_init(struct mmu *m, struct mem *mem, const struct mmu_ops *ops, _Atomic u32 *attn,
	     const struct tlb_config *config) must_check;

/** mmu_fini() - release what mmu_init() and later fills allocated */
void mmu_fini(struct mmu *m);

/*
 * Registers.  The callers (cpu/cr.c, exception delivery, state ioctls) have
 * checked the values; these store them and do what the manual's table of
 * flushes asks for: no less, and as little more as possible.
 */
void mmu_set_cr0(struct mmu *m, u64 cr0);
/** mmu_set_cr3() - @cr3 with bit 63 (no flush) still in place; it is not stored */
void mmu_set_cr3(struct mmu *m, u64 cr3);
void mmu_set_cr4(struct mmu *m, u64 cr4);
void mmu_set_efer(struct mmu *m, u64 efer);
/** mmu_set_cpl() - also selects the class tables; cheap when nothing changes */
void mmu_set_cpl(struct mmu *m, unsigned cpl);
/** mmu_set_ac() - RFLAGS.AC changed; selects the class tables */
void mmu_set_ac(struct mmu *m, bool ac);
/**
 * mmu_load_pdptrs() - PAE: load the four PDPTEs from @cr3
 * Return: false (nothing changed) if one has reserved bits set: #GP.
 */
bool mmu_load_pdptrs(struct mmu *m, u64 cr3);

/* Invalidation by the guest (SDM Vol. 3A "Invalidation of TLBs and
 * Paging-Structure Caches").  Operands were checked by the caller. */
void mmu_invlpg(struct mmu *m, gva_t gva);
void mmu_invpcid(struct mmu *m, unsigned type, unsigned pcid, gva_t gva);
/** mmu_flush_guest() - every PCID, globals too: INIT, PV flush, SET_SREGS */
void mmu_flush_guest(struct mmu *m);

/*
 * Memory.  All take linear addresses of any alignment, may cross pages, and
 * return EMUL_CONTINUE, EMUL_FAULT (m->fault; nothing was written), EMUL_IO or
 * EMUL_RETRY.  A write that crosses a page checks both pages before it writes;
 * a part that goes to a device goes first, so EMUL_IO has not written RAM.
 * Accesses of 1, 2, 4 and 8 bytes inside RAM that do not cross a page are
 * single (no tearing) when aligned.
 */
enum emul mmu_read_slow(struct mmu *m, gva_t gva, void *dst, unsigned n,
			unsigned acc) must_check;
enum emul mmu_write_slow(struct mmu *m, gva_t gva, const void *src, unsigned n,
			 unsigned acc) must_check;

/**
 * mmu_read(), mmu_write() - @n bytes, 1..4096, current privilege
 */
static inline enum emul mmu_read(struct mmu *m, gva_t gva, void *dst, unsigned n,
				 unsigned acc);
static inline enum emul mmu_write(struct mmu *m, gva_t gva, const void *src, unsigned n,
				  unsigned acc);

/**
 * mmu_rmw() - host pointer for a read-modify-write (locked or not) of @n bytes
 * @hva: on EMUL_CONTINUE: a pointer valid for reading and writing @n bytes
 *       until the next call into mmu that is not a read, or NULL: then the
 *       operand is not contiguous, tracked RAM or is a device, and the caller
 *       must use mmu_rmw_begin() and mmu_rmw_end().  The page counts as written.
 * A fault has PF_W set, as hardware reports it.
 */
enum emul mmu_rmw(struct mmu *m, gva_t gva, unsigned n, unsigned acc,
		  void **hva) must_check;

/**
 * mmu_rmw_begin() - slow form: take the VM-wide lock of unsplittable accesses,
 * check that @n bytes at @gva are writable and read them to @old
 * On EMUL_CONTINUE the caller must call mmu_rmw_end() exactly once, which
 * writes @n bytes (if @src is not NULL) and releases the lock.  An access that
 * does not cross a page and lies in RAM is written by compare-and-exchange
 * against @old, so that plain locked instructions of other vCPUs are seen:
 * mmu_rmw_end() then returns EMUL_RETRY if it lost the race.
 */
enum emul mmu_rmw_begin(struct mmu *m, gva_t gva, unsigned n, unsigned acc,
			void *old) must_check;
enum emul mmu_rmw_end(struct mmu *m, const void *src) must_check;

/** mmu_probe_write() - check that [gva, gva+n) may be written; write nothing
 * (multi-store instructions probe first).  Sets D as a write would. */
enum emul mmu_probe_write(struct mmu *m, gva_t gva, unsigned n, unsigned acc) must_check;
/** mmu_probe_read() - likewise for reading */
enum emul mmu_probe_read(struct mmu *m, gva_t gva, unsigned n, unsigned acc) must_check;

/** mmu_page() - host pointer for bulk access (REP MOVS/STOS ...)
 * @hva: NULL when the page is not plain RAM for this kind of access (device,
 *       tracked page, page boundary within @n): use mmu_read()/mmu_write().
 *       Otherwise valid for @n bytes, which do not cross a page, until the next
 *       call into mmu that writes (a pointer for reading: that is no read).
 *       With @write the page counts as written. */
enum emul mmu_page(struct mmu *m, gva_t gva, unsigned n, bool write, unsigned acc,
		   void **hva) must_check;

/** struct mmu_code - where the code at an address is backed
 * @bp:  backing page (mem/track.h); identity of the code's bytes
 * @hva: host address of the page's first byte
 * @gva: an address in that page, through which it was found */
struct mmu_code {
	struct bpage *bp;
	u8 *hva;
	gva_t gva;
};

/**
 * mmu_fetch() - resolve the page of @rip for execution at the current privilege
 * @rip: linear address
 * Through the code TLB.  A page that is no RAM gives EMUL_CONTINUE with
 * bp == NULL: the caller then fetches with mmu_fetch_bytes() and caches nothing.
 */
enum emul mmu_fetch(struct mmu *m, gva_t rip, struct mmu_code *code) must_check;

/**
 * mmu_track_page() - set @flag (BP_*) on the backing page of @code; on return no
 * vCPU, this one included, has a direct write entry for it at any address
 * In guest mode, at a point where no pointer from this mmu is in use: requests
 * of other threads may be served inside.
 * Return: false: the memory slots changed meanwhile, @code is out of date (and
 * the flag is set on the page it named).
 */
bool mmu_track_page(struct mmu *m, struct mmu_code *code, u32 flag);

/** mmu_fetch_bytes() - read up to 15 code bytes at @rip, for decoding
 * @n: in: how many are wanted; all are read or a fault is raised at the first
 *     page that cannot be executed.
 *     EMUL_INTERCEPT where no RAM is: code in devices is not executed, which KVM
 *     reports to the client as an internal error, too. */
enum emul mmu_fetch_bytes(struct mmu *m, gva_t rip, u8 *dst, unsigned n) must_check;

/**
 * mmu_translate() - walk without side effects, for KVM_TRANSLATE and debuggers
 * Reads the tables themselves, no cache; may be called outside guest mode.
 * Return: true and *@gpa; false if not mapped.
 */
bool mmu_translate(struct mmu *m, gva_t gva, gpa_t *gpa, bool *writable, bool *user);

/** mmu_set_space() - see guest-physical space @space (mem/mem.h) from now on; what
 * was translated in the other one goes */
void mmu_set_space(struct mmu *m, unsigned space);

/** mmu_set_watch() - watch[0..@n) has been filled in: act on it */
void mmu_set_watch(struct mmu *m, unsigned n);

/*
 * Guest mode.  Between mmu_enter_guest() and mmu_exit_guest() other threads
 * must wait for this vCPU's acknowledgement before they may rely on a changed
 * slot or tracking flag; outside, the vCPU re-checks at entry.
 */
void mmu_enter_guest(struct mmu *m);
void mmu_exit_guest(struct mmu *m);
/** mmu_poll() - serve requests of other threads; at instruction boundaries,
 * when the attention word has ATTN_MEM (mem/track.h) */
void mmu_poll(struct mmu *m);

#include "mmu/access.inc.h"

#endif
