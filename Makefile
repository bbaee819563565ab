# SPDX-License-Identifier: MIT
# A plain `make` bootstraps itself: autoconf, configure, build. Into build/plain, or with a sanitizer into a directory of its own:
# SAN=address,undefined or SAN=thread. V=1 shows the commands, CI=1 makes warnings errors. New .c files are picked up by wildcard.
ifneq ($(if $(MAKECMDGOALS),$(filter-out clean distclean format dist help demo,$(MAKECMDGOALS)),all),)
include config.mk
endif
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-6s %s\n' $(1) $(2))

SAN ?=
, := ,
B := build/$(if $(SAN),$(subst $(,),-,$(SAN)),plain)
CFLAGS ?= -O2 -g
DEFS = -D_GNU_SOURCE -DIWSOCK_VERSION='"$(VERSION)"' -DIW_SYSCONFDIR='"$(sysconfdir)"' -DHAVE_VERBS=$(HAVE_VERBS) \
	$(URING_CFLAGS) $(SYSTEMD_CFLAGS) $(JANSSON_CFLAGS) $(CMOCKA_CFLAGS)
WARN = -std=gnu11 -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wno-unused-parameter $(if $(CI),-Werror)
COMMON = $(DEFS) $(CPPFLAGS) $(CFLAGS) $(WARN) -MMD -MP -fno-strict-aliasing
SANFLAGS = $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
# programs of ours
PROG = $(COMMON) -fPIE -fstack-protector-strong $(if $(SAN),$(SANFLAGS),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
PROGLD = $(LDFLAGS) $(SANFLAGS) -pie -Wl,-z,relro,-z,now
# The library goes into strangers' processes: never sanitized, hidden by default, and no _chk calls, which it intercepts itself.
LIB = $(COMMON) -fPIC -fvisibility=hidden -U_FORTIFY_SOURCE

PROTO := $(patsubst %.c,$(B)/%.o,$(wildcard proto/*.c))
IWCTL := $(patsubst %.c,$(B)/%.o,$(wildcard daemon/iwctl*.c))
DAEMON := $(filter-out $(IWCTL) $(B)/daemon/main.o,$(patsubst %.c,$(B)/%.o,$(wildcard daemon/*.c)))
PRELOAD := $(patsubst %.c,$(B)/pic/%.o,$(wildcard preload/*.c) $(wildcard $(addprefix proto/,ctlmsg.c reason.c policy.c)))
UNIT := $(patsubst tests/unit/%.c,$(B)/tests/unit/%,$(wildcard tests/unit/*.c))
DTEST := $(patsubst tests/daemon/%.c,$(B)/tests/daemon/%,$(wildcard tests/daemon/*.c))
SOCK := $(patsubst tests/sock/%.c,$(B)/tests/sock/%,$(wildcard tests/sock/*.c))
TOOLS := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/*.c))
FUZZ := $(patsubst tests/fuzz/%.c,build/fuzz/%,$(wildcard tests/fuzz/*.c))
BENCH := $(patsubst bench/%.c,$(B)/bench/%,$(wildcard bench/*.c))
LIBT := $(patsubst tests/lib/%.c,$(B)/tests/lib/%,$(wildcard tests/lib/*.c))
APPS := $(patsubst tests/apps/%.c,$(B)/tests/apps/%,$(wildcard tests/apps/*.c))

all: $(B)/iwarpd $(B)/iwctl $(B)/libiwsock.so

help:
	@echo 'make            build into $(B): iwarpd, iwctl, libiwsock.so'
	@echo 'make demo       two hosts out of network namespaces: redis and iperf3, plain and over iWARP (root)'
	@echo 'make check      all tests (those that make hosts need root); SAN=address,undefined or SAN=thread'
	@echo 'make check-interop  in a guest that it builds and boots: against Linux siw, and within strongSwan'\''s ESP (root)'
	@echo 'make fuzz       T=60 seconds for each fuzzer (clang)'
	@echo 'make bench      pairs against plain TCP (root); bench-rnic: the RNIC alone; bench-guest: and the kernel'\''s siw'
	@echo 'make install    DESTDIR= prefix= sysconfdir=; also uninstall'
	@echo 'make dist clean distclean format lint'

config.mk: configure config.mk.in
	$(Q)if [ -x config.status ]; then ./config.status -q --recheck && ./config.status -q; else \
		./configure $(if $(filter command% environment,$(origin prefix)),--prefix=$(prefix)); fi
configure: configure.ac
	$(Q)command -v autoconf >/dev/null || { echo "autoconf not found: on Debian, apt-get install autoconf" >&2; exit 1; }
	autoconf

$(B)/libproto.a: $(PROTO)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(B)/iwarpd: $(B)/daemon/main.o $(DAEMON) $(B)/libproto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(PROGLD) -o $@ $^ $(URING_LIBS) $(SYSTEMD_LIBS) -lm
# the RNIC is in iwctl too, for rping
$(B)/libdaemon.a: $(DAEMON)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(B)/iwctl: $(IWCTL) $(B)/libdaemon.a $(B)/libproto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(PROGLD) -o $@ $^ $(URING_LIBS) $(SYSTEMD_LIBS) $(JANSSON_LIBS) -lm
$(B)/libiwsock.so: $(PRELOAD) preload/libiwsock.map
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-z,nodelete,-z,now,-z,relro -Wl,-Bsymbolic-functions -Wl,--version-script=preload/libiwsock.map -Wl,-soname,libiwsock.so -o $@ $(PRELOAD) -ldl
$(B)/%.o: %.c | config.mk
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(PROG) -c -o $@ $<
$(B)/pic/%.o: %.c | config.mk
	@mkdir -p $(@D)
	$(call say,CC,"$< (library)")
	$(Q)$(CC) $(LIB) -c -o $@ $<
$(B)/tests/unit/%: tests/unit/%.c $(B)/libproto.a | config.mk
	@mkdir -p $(@D)
	$(call say,TEST,$<)
	$(Q)$(CC) $(PROG) $(PROGLD) -o $@ $< $(B)/libproto.a $(CMOCKA_LIBS) -lpthread
$(B)/tests/daemon/%: tests/daemon/%.c $(DAEMON) $(B)/libproto.a | config.mk
	@mkdir -p $(@D)
	$(call say,TEST,$<)
	$(Q)$(CC) $(PROG) $(PROGLD) -o $@ $< $(DAEMON) $(B)/libproto.a $(CMOCKA_LIBS) -lpthread $(URING_LIBS) $(SYSTEMD_LIBS) -lm
$(TOOLS): $(B)/tests/%: tests/%.c $(DAEMON) $(B)/libproto.a | config.mk
	@mkdir -p $(@D)
	$(call say,TEST,$<)
	$(Q)$(CC) $(PROG) $(PROGLD) -o $@ $< $(DAEMON) $(B)/libproto.a -lpthread $(URING_LIBS) $(SYSTEMD_LIBS) -lm
# for scripted peers: the one built last
tests/iwdut: $(B)/tests/iwdut always
	$(Q)cmp -s $< $@ || cp $< $@
# strangers' programs, as far as we are concerned: never sanitized, nothing of ours in them
$(SOCK) $(APPS) $(LIBT) $(BENCH): $(B)/%: %.c | config.mk
	@mkdir -p $(@D)
	$(call say,TEST,$<)
	$(Q)$(CC) $(COMMON) $(STATIC) -o $@ $< -lpthread
$(B)/tests/lib/echoer: STATIC = -static

# our end of the talks with Linux siw, and the verbs end, which runs in the guest of tests/interop/guest
INTEROP := $(B)/tests/interop/peer $(B)/tests/interop/iwerr
$(B)/tests/interop/peer: tests/interop/peer.c $(B)/libdaemon.a $(B)/libproto.a | config.mk
	@mkdir -p $(@D)
	$(call say,TEST,$<)
	$(Q)$(CC) $(PROG) $(PROGLD) -o $@ $(filter %.c %.a,$^) $(URING_LIBS) $(SYSTEMD_LIBS) -lm
$(B)/tests/interop/iwerr: tests/interop/iwerr.c | config.mk
	@mkdir -p $(@D)
	$(call say,TEST,$<)
	$(Q)$(CC) $(COMMON) -o $@ $< -lrdmacm -libverbs
check-interop: all $(INTEROP) $(SOCK) $(LIBT)
	$(Q)IW_TEST_TIMEOUT=$${IW_TEST_TIMEOUT:-3600} tests/run $(B) $(INTEROP_TESTS)
INTEROP_TESTS ?= tests/interop/siw.t tests/interop/ipsec.t

tests: all tests/iwdut $(UNIT) $(DTEST) $(TOOLS) $(SOCK) $(APPS) $(LIBT) $(B)/bench/rdma/rdma
check: tests
	$(Q)tests/run $(B) $(TESTS)
# installs what is missing, then builds
demo:
	$(Q)tests/demo $(B)
bench: all $(BENCH) $(B)/tests/lib/ready $(B)/bench/rdma/rdma
	$(Q)bench/run $(B)
	$(Q)bench/rnic $(B)
# RNIC to RNIC beside plain TCP; also runs in the guest of check-interop, where verbs reach siw
RDMA := $(patsubst %.c,$(B)/%.o,$(addprefix bench/rdma/,rdma.c tcp.c soft.c $(if $(filter 1,$(HAVE_VERBS)),verbs.c)))
$(B)/bench/rdma/rdma: $(RDMA) $(B)/libdaemon.a $(B)/libproto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(PROGLD) -o $@ $^ $(URING_LIBS) $(SYSTEMD_LIBS) -lm $(if $(filter 1,$(HAVE_VERBS)),-lrdmacm -libverbs)
bench-rnic: $(B)/bench/rdma/rdma
	$(Q)bench/rnic $(B)
bench-guest: $(B)/bench/rdma/rdma
	$(Q)bench/rnic --guest $(B)

# each for T seconds, with clang's libFuzzer; the corpora, seeded from the vectors, stay in build/fuzz
T ?= 60
FUZZCC = clang -std=gnu11 $(DEFS) -g -O1 -fno-omit-frame-pointer -fno-sanitize-recover=all -MMD -MP
FUZZED := $(patsubst %.c,build/fuzz/%.o,$(wildcard proto/*.c) $(filter-out daemon/main.c $(wildcard daemon/iwctl*.c),$(wildcard daemon/*.c)))
build/fuzz/%.o: %.c | config.mk
	@mkdir -p $(@D)
	$(call say,CC,"$< (fuzzed)")
	$(Q)$(FUZZCC) -fsanitize=fuzzer-no-link,address,undefined -c -o $@ $<
build/fuzz/libfuzzed.a: $(FUZZED)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
build/fuzz/%_fuzz: tests/fuzz/%_fuzz.c build/fuzz/libfuzzed.a
	$(call say,FUZZ,$<)
	$(Q)$(FUZZCC) -fsanitize=fuzzer,address,undefined -o $@ $< build/fuzz/libfuzzed.a $(URING_LIBS) $(SYSTEMD_LIBS) -lm
fuzz: $(FUZZ)
	$(Q)tests/fuzz/run $(T) $(FUZZ)

# ---- install ----
INSTALL = install
SUBST = sed -e 's|@sbindir@|$(sbindir)|g' -e 's|@bindir@|$(bindir)|g' -e 's|@sysconfdir@|$(sysconfdir)|g' -e 's|@libdir@|$(libdir)|g' -e 's|@VERSION@|$(VERSION)|g'
MAN := $(wildcard man/*.[1-8])
man_of = $(DESTDIR)$(mandir)/man$(patsubst .%,%,$(suffix $(1)))/$(notdir $(1))
DATA := $(systemdsystemunitdir)/iwarpd.service $(systemdsystemunitdir)/iwarpd.socket $(sysusersdir)/iwarpd.conf $(tmpfilesdir)/iwarpd.conf \
	$(dbuspolicydir)/org.iwsock.Daemon1.conf $(bashcompdir)/iwctl
from = conf/$(strip $(if $(findstring sysusers,$(1)),iwarpd.sysusers,$(if $(findstring tmpfiles,$(1)),iwarpd.tmpfiles,\
	$(if $(findstring completion,$(1)),iwctl.bash,$(notdir $(1))))))
SETTINGS := iwarpd.conf iwsock.conf
confdir = $(DESTDIR)$(sysconfdir)/iwsock

install: all
	$(INSTALL) -d $(DESTDIR)$(sbindir) $(DESTDIR)$(bindir) $(DESTDIR)$(libdir) $(confdir)
	$(INSTALL) -m 755 $(B)/iwarpd $(DESTDIR)$(sbindir)/iwarpd
	$(INSTALL) -m 755 $(B)/iwctl $(DESTDIR)$(bindir)/iwctl
	$(INSTALL) -m 755 $(B)/libiwsock.so $(DESTDIR)$(libdir)/libiwsock.so
	$(foreach m,$(MAN),$(INSTALL) -d $(dir $(call man_of,$(m))) && $(INSTALL) -m 644 $(m) $(call man_of,$(m)) &&) :
	$(foreach d,$(DATA),$(INSTALL) -d $(DESTDIR)$(dir $(d)) && $(SUBST) $(call from,$(d)) >$(DESTDIR)$(d) && chmod 644 $(DESTDIR)$(d) &&) :
	$(foreach c,$(SETTINGS),{ test -e $(confdir)/$(c) || $(INSTALL) -m 644 conf/$(c) $(confdir)/$(c); } &&) :
	$(if $(DESTDIR),,packaging/post-install)

# Settings that were changed stay.
uninstall:
	rm -f $(DESTDIR)$(sbindir)/iwarpd $(DESTDIR)$(bindir)/iwctl $(DESTDIR)$(libdir)/libiwsock.so
	rm -f $(foreach m,$(MAN),$(call man_of,$(m))) $(addprefix $(DESTDIR),$(DATA))
	$(foreach c,$(SETTINGS),{ ! cmp -s conf/$(c) $(confdir)/$(c) || rm -f $(confdir)/$(c); } &&) :

# ---- housekeeping ----
dist: configure
	v=$$(sed -n 's/^AC_INIT(\[iwsock\], \[\(.*\)\])/\1/p' configure.ac) && \
	git archive --prefix=iwsock-$$v/ --add-file=configure -o iwsock-$$v.tar.gz HEAD && echo iwsock-$$v.tar.gz
SOURCES = $(wildcard proto/*.[ch] daemon/*.[ch] preload/*.[ch] tests/*/*.[ch])
format:
	clang-format -i $(SOURCES)
lint: config.mk
	$(Q)found=; \
	if command -v cppcheck >/dev/null; then found=1; cppcheck -q -j2 --std=c11 --error-exitcode=1 --inline-suppr \
		--suppressions-list=.cppcheck --enable=warning,portability -D__x86_64__ -D__linux__ \
		--platform=unix64 -D__LP64__ -D__OFF_T_MATCHES_OFF64_T \
		'-Djson_array_foreach(a,i,v)=while (json_each(a, i, v))' $(DEFS) proto daemon preload || exit 1; fi; \
	if command -v clang-tidy >/dev/null; then found=1; printf '%s\0' $(wildcard proto/*.c daemon/*.c preload/*.c) | \
		xargs -0 -I{} -P2 clang-tidy --quiet --warnings-as-errors='*' {} -- -std=gnu11 $(DEFS) 2>/dev/null || exit 1; fi; \
	if [ -z "$$found" ]; then echo "neither cppcheck nor clang-tidy found: on Debian, apt-get install cppcheck clang-tidy" >&2; exit 1; fi
clean:
	rm -rf build
distclean: clean
	rm -rf autom4te.cache config.mk config.log config.status configure configure~ aclocal.m4 iwsock-*.tar.gz

-include $(shell find $(B) build/fuzz -name '*.d' 2>/dev/null)
always:
.PHONY: all always help tests check check-interop fuzz demo bench bench-rnic bench-guest install uninstall dist format lint clean distclean
.DELETE_ON_ERROR:
