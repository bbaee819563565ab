# SPDX-License-Identifier: MIT
# A plain `make` bootstraps itself: autoconf, configure, build. Into build/plain, or with a sanitizer into a directory of its own:
# SAN=address,undefined or SAN=thread. V=1 shows the commands, CI=1 makes warnings errors. New .c files are picked up by wildcard.
ifneq ($(if $(MAKECMDGOALS),$(filter-out clean distclean format dist deb help demo,$(MAKECMDGOALS)),all),)
include config.mk
endif
# Packages that came or went since configure looked: it looks again. Not to install or take away what was built.
.DEFAULT_GOAL := all
ifneq ($(if $(MODULES),$(if $(MAKE_RESTARTS),,$(if $(MAKECMDGOALS),$(filter-out install uninstall,$(MAKECMDGOALS)),all))),)
ifneq ($(strip $(FOUND)),$(shell PKG_CONFIG_PATH='$(PKG_CONFIG_PATH)'; [ -z "$$PKG_CONFIG_PATH" ] || export PKG_CONFIG_PATH; \
	for m in $(MODULES); do $(PKG_CONFIG) --modversion $$m 2>/dev/null || echo no; done))
config.mk: always
endif
endif
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-6s %s\n' $(1) $(2))

SAN ?=
, := ,
B := build/$(if $(SAN),$(subst $(,),-,$(SAN)),plain)
CFLAGS ?= $(if $(SAN),-O1,-O2) -g
DEFS = -I. -D_GNU_SOURCE -DIWSOCK_VERSION='"$(VERSION)"' -DIW_SYSCONFDIR='"$(sysconfdir)"' -DHAVE_VERBS=$(HAVE_VERBS) -DHAVE_SDT=$(HAVE_SDT) \
	$(URING_CFLAGS) $(SYSTEMD_CFLAGS) $(JANSSON_CFLAGS) $(CMOCKA_CFLAGS)
WARN = -std=gnu11 -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wno-unused-parameter $(if $(CI),-Werror)
COMMON = $(DEFS) $(CPPFLAGS) $(CFLAGS) $(WARN) -MMD -MP -fno-strict-aliasing
SANFLAGS = $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
# programs of ours
PROG = $(COMMON) -fPIE -fstack-protector-strong $(if $(SAN),$(SANFLAGS),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
# most of the time of a build would go into making tests fast
TEST = $(PROG) -O0 -U_FORTIFY_SOURCE
PROGLD = $(LDFLAGS) $(SANFLAGS) -pie -Wl,-z,relro,-z,now
# The library goes into strangers' processes: never sanitized, hidden by default, and no _chk calls, which it intercepts itself.
LIB = $(COMMON) -fPIC -fvisibility=hidden -U_FORTIFY_SOURCE

PROTO := $(patsubst %.c,$(B)/obj/%.o,$(wildcard proto/*.c))
IWCTL := $(patsubst %.c,$(B)/obj/%.o,$(wildcard iwctl/*.c))
# verbs*.c: where libibverbs and librdmacm are, which the daemon loads itself when it uses a device
DAEMONSRC := $(filter-out $(if $(filter 1,$(HAVE_VERBS)),,daemon/rnic/verbs%),$(wildcard daemon/*/*.c))
DAEMON := $(patsubst %.c,$(B)/obj/%.o,$(DAEMONSRC))
PRELOAD := $(patsubst %.c,$(B)/pic/%.o,$(wildcard preload/*.c preload/*/*.c) $(filter-out proto/session.c proto/beside.c,$(wildcard proto/*.c)))
UNIT := $(patsubst tests/unit/%.c,$(B)/tests/unit/%,$(wildcard tests/unit/*.c))
DTEST := $(patsubst tests/daemon/%.c,$(B)/tests/daemon/%,$(wildcard tests/daemon/*.c))
# by theme in folders, their programs in one
SOCKSRC := $(wildcard tests/sock/*/*.c)
SOCK := $(patsubst %.c,$(B)/tests/sock/%,$(notdir $(SOCKSRC)))
TOOLS := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/*.c))
FUZZ := $(patsubst tests/fuzz/%.c,build/fuzz/%,$(wildcard tests/fuzz/*.c))
BENCH := $(patsubst bench/%.c,$(B)/bench/%,$(wildcard bench/*.c))
LIBT := $(patsubst tests/lib/%.c,$(B)/tests/lib/%,$(wildcard tests/lib/*.c))
# a device made up for tests/verbs.t, in the place of both libraries: one file, two names
DEVICE := $(if $(filter 1,$(HAVE_VERBS)),$(addprefix $(B)/tests/lib/verbs/,libibverbs.so.1 librdmacm.so.1))
OPSOAK := $(B)/tests/opsoak/opsoak
APPS := $(patsubst tests/apps/%.c,$(B)/tests/apps/%,$(wildcard tests/apps/*.c))

# DELAY=SEED: the steps in which maps change hands take longer by chance; for tests/delays.t
ifneq ($(DELAY),)
LATE := obj/daemon/stream/agent obj/daemon/stream/burst obj/daemon/stream/map obj/daemon/stream/keep obj/daemon/stream/carrier_pump obj/daemon/stream/rest obj/daemon/stream/handed obj/daemon/cm/direct obj/daemon/cm/mapping obj/daemon/cm/switch obj/daemon/rnic/soft_rest \
	$(addprefix pic/preload/,adopt map map_direct map_give $(addprefix paths/,mapped mapped_call mapped_in mapped_rx mapped_sleep mapped_tx carrier_all rings rings_rx rings_tx rings_rest) kick orphan ready stream switch swap reg reg_kick reg_learn reg_room epoll_set epoll_wait poll shutdown) $(addprefix pic/proto/,map end end_rx end_tx)
$(LATE:%=$(B)/%.o): COMMON += -finstrument-functions -finstrument-functions-exclude-function-list=sys6 -DDELAY=$(DELAY)u -include tests/lib/delays.h
endif

all: $(B)/iwarpd $(B)/iwctl $(B)/libiwsock.so

help:
	@echo 'make            build into $(B): iwarpd, iwctl, libiwsock.so'
	@echo 'make demo       two hosts out of network namespaces: redis and iperf3, plain and over iWARP (root)'
	@echo 'make check      all tests (those that make hosts need root); SAN=address,undefined or SAN=thread'
	@echo 'make check-interop  in a guest that it builds and boots: against Linux siw, and within strongSwan'\''s ESP (root)'
	@echo 'make check-boot  installed, started, restarted, used and taken away on machines with systemd, which it builds and boots (root)'
	@echo 'make fuzz       T=60 seconds for each fuzzer (clang)'
	@echo 'make bench      beside plain TCP, in three minutes (root); BUSY=4: with so many busy processes; bench-price: what stays plain;'
	@echo '                bench-pause, bench-worth: upgrades; bench-idle: 10,000 that nobody uses; bench-rnic: the RNIC alone; bench-guest: and the kernel'\''s siw'
	@echo 'make install    DESTDIR= prefix= sysconfdir=; also uninstall'
	@echo 'make deb        Debian packages of HEAD into build/deb, built and judged by lintian in a root that it makes (root)'
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
$(B)/iwarpd: $(B)/obj/daemon/main.o $(DAEMON) $(B)/libproto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(PROGLD) -o $@ $^ $(URING_LIBS) $(SYSTEMD_LIBS) -lm
$(B)/libdaemon.a: $(DAEMON)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
# the RNIC alone: iwctl has one too, for rping
$(B)/librnic.a: $(filter $(B)/obj/daemon/base/% $(B)/obj/daemon/rnic/%,$(DAEMON))
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(B)/iwctl: $(IWCTL) $(B)/librnic.a $(B)/libproto.a
	$(call say,LD,$@)
	$(Q)$(CC) $(PROGLD) -o $@ $^ $(URING_LIBS) $(SYSTEMD_LIBS) $(JANSSON_LIBS) -lm
ifeq ($(SAN),)
$(B)/libiwsock.so: $(PRELOAD) preload/libiwsock.map
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-z,nodelete,-z,now,-z,relro -Wl,-Bsymbolic-functions -Wl,--version-script=preload/libiwsock.map -Wl,-soname,libiwsock.so -o $@ $(PRELOAD) -ldl
else
# what is never sanitized is the same in each build
SAME := $(B)/libiwsock.so $(SOCK) $(OPSOAK) $(APPS) $(LIBT) $(BENCH)
$(SAME): $(B)/%: build/plain/%
	@mkdir -p $(@D)
	$(Q)cp $< $@
$(SAME:$(B)/%=build/plain/%): same ;
same:
	$(Q)$(MAKE) -s --no-print-directory SAN= $(SAME:$(B)/%=build/plain/%)
endif
# programs hold the version and directories: others, and they are made anew
ifneq ($(strip $(file <$(B)/defs)),$(strip $(DEFS)))
$(B)/defs: always
endif
$(B)/defs: export IW_DEFS = $(DEFS)
$(B)/defs: | config.mk
	@mkdir -p $(@D)
	@printf '%s\n' "$$IW_DEFS" >$@
$(B)/obj/%.o: %.c $(B)/defs | config.mk
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(PROG) -c -o $@ $<
$(B)/pic/%.o: %.c $(B)/defs | config.mk
	@mkdir -p $(@D)
	$(call say,CC,"$< (library)")
	$(Q)$(CC) $(LIB) -c -o $@ $<
ifeq ($(CMOCKA_LIBS),)
$(UNIT) $(DTEST): no-cmocka
no-cmocka:
	@echo "cmocka not found: on Debian, apt-get install libcmocka-dev" >&2; exit 1
endif
$(B)/tests/unit/%: tests/unit/%.c $(B)/libproto.a | config.mk
	@mkdir -p $(@D)
	$(call say,TEST,$<)
	$(Q)$(CC) $(PROG) $(PROGLD) -o $@ $< $(B)/libproto.a $(CMOCKA_LIBS) -lpthread
$(B)/tests/daemon/%: tests/daemon/%.c $(DAEMON) $(B)/libproto.a | config.mk
	@mkdir -p $(@D)
	$(call say,TEST,$<)
	$(Q)$(CC) $(TEST) $(PROGLD) -o $@ $< $(DAEMON) $(B)/libproto.a $(CMOCKA_LIBS) -lpthread $(URING_LIBS) $(SYSTEMD_LIBS) -lm
$(TOOLS): $(B)/tests/%: tests/%.c $(DAEMON) $(B)/libproto.a | config.mk
	@mkdir -p $(@D)
	$(call say,TEST,$<)
	$(Q)$(CC) $(TEST) $(PROGLD) -o $@ $< $(DAEMON) $(B)/libproto.a -lpthread $(URING_LIBS) $(SYSTEMD_LIBS) -lm
# for scripted peers: the one built last
tests/iwdut: $(B)/tests/iwdut always
	$(Q)cmp -s $< $@ || cp $< $@
# strangers' programs, as far as we are concerned: never sanitized, nothing of ours in them
vpath %.c $(sort $(dir $(SOCKSRC)))
ifeq ($(SAN),)
$(SOCK): $(B)/tests/sock/%: %.c | config.mk
	@mkdir -p $(@D)
	$(call say,TEST,$<)
	$(Q)$(CC) $(COMMON) -O0 -o $@ $< -lpthread
$(APPS) $(LIBT) $(BENCH): $(B)/%: %.c | config.mk
	@mkdir -p $(@D)
	$(call say,TEST,$<)
	$(Q)$(CC) $(COMMON) $(STATIC) -o $@ $< -lpthread
$(B)/tests/lib/echoer: STATIC = -static
$(OPSOAK): $(wildcard tests/opsoak/*.c) tests/opsoak/opsoak.h | config.mk
	@mkdir -p $(@D)
	$(call say,TEST,tests/opsoak)
	$(Q)$(CC) $(filter-out -MMD -MP,$(COMMON)) -o $@ $(filter %.c,$^) -lpthread
endif

# beside a daemon that is sanitized it is, too: what it is given to read and write is looked at
$(B)/tests/lib/verbs/libibverbs.so.1: $(wildcard tests/lib/verbs/*.c) tests/lib/verbs/made_up.h $(B)/defs | config.mk
	@mkdir -p $(@D)
	$(call say,TEST,tests/lib/verbs)
	$(Q)$(CC) $(filter-out -MMD -MP,$(COMMON)) $(SANFLAGS) -fPIC -shared $(LDFLAGS) -Wl,-Bsymbolic -o $@ $(filter %.c,$^) -lpthread
$(B)/tests/lib/verbs/librdmacm.so.1: $(B)/tests/lib/verbs/libibverbs.so.1
	$(Q)ln -sf $(<F) $@

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
# one guest at a time: it is emulated, and answers have to come in time
interop-programs: all $(INTEROP) $(SOCK) $(LIBT)
check-interop: interop-programs
	$(Q)IW_TEST_TIMEOUT=$${IW_TEST_TIMEOUT:-3600} IW_JOBS=1 tests/run $(B) $(INTEROP_TESTS)
INTEROP_TESTS ?= tests/interop/siw.t tests/interop/ipsec.t
# and with the devices there under the daemons
check-verbs: interop-programs
	$(Q)IW_TEST_TIMEOUT=$${IW_TEST_TIMEOUT:-3600} IW_JOBS=1 tests/run $(B) tests/interop/verbs.t

# two machines with a systemd of their own
check-boot: all deb
	$(Q)IW_TEST_TIMEOUT=$${IW_TEST_TIMEOUT:-900} tests/run $(B) tests/boot/boot.t tests/boot/service.t tests/boot/containers.t tests/boot/packages.t tests/boot/guide.t tests/boot/adverse.t tests/boot/restarts.t

tests: all tests/iwdut $(UNIT) $(DTEST) $(TOOLS) $(SOCK) $(OPSOAK) $(APPS) $(LIBT) $(DEVICE) $(BENCH) $(B)/bench/rdma/rdma
check: tests
	$(Q)tests/run $(B) $(TESTS)
# installs what is missing, then builds
demo:
	$(Q)tests/demo $(B)
# BUSY=4: with so many busy processes beside
bench: all $(BENCH) $(B)/tests/lib/ready
	$(Q)bench/run $(if $(BUSY),--busy $(BUSY)) $(B)
bench-price bench-pause bench-worth bench-idle: bench-%: all $(BENCH) $(B)/tests/lib/ready
	$(Q)bench/$* $(B)
# RNIC to RNIC beside plain TCP; also runs in the guest of check-interop, where verbs reach siw
RDMA := $(patsubst %.c,$(B)/obj/%.o,$(addprefix bench/rdma/,rdma.c tcp.c soft.c $(if $(filter 1,$(HAVE_VERBS)),verbs.c)))
$(B)/bench/rdma/rdma: $(RDMA) $(B)/libdaemon.a $(B)/libproto.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(PROGLD) -o $@ $^ $(URING_LIBS) $(SYSTEMD_LIBS) -lm $(if $(filter 1,$(HAVE_VERBS)),-lrdmacm -libverbs)
bench-rnic: $(B)/bench/rdma/rdma
	$(Q)bench/rnic $(B)
bench-guest: $(B)/bench/rdma/rdma
	$(Q)bench/rnic --guest $(B)

# each for T seconds, with clang's libFuzzer; the corpora, seeded from the vectors, stay in build/fuzz
T ?= 60
FUZZCC = clang -std=gnu11 $(DEFS) -g -O1 -fno-omit-frame-pointer -fno-sanitize-recover=all -MMD -MP
FUZZED := $(patsubst %.c,build/fuzz/%.o,$(wildcard proto/*.c) $(DAEMONSRC))
build/fuzz/%.o: %.c | config.mk
	@mkdir -p $(@D)
	$(call say,CC,"$< (fuzzed)")
	$(Q)$(FUZZCC) -fsanitize=fuzzer-no-link,address,undefined -c -o $@ $<
build/fuzz/libfuzzed.a: $(FUZZED)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
build/fuzz/%_fuzz: tests/fuzz/%_fuzz.c build/fuzz/libfuzzed.a
	$(call say,FUZZ,$<)
	$(Q)$(FUZZCC) -fsanitize=fuzzer,address,undefined -o $@ $< build/fuzz/libfuzzed.a $(URING_LIBS) $(SYSTEMD_LIBS) -lm
fuzzers: $(FUZZ)
fuzz: fuzzers
	$(Q)tests/fuzz/run $(T) $(FUZZ)

# for tests/delays.t
late-objects:
	@printf '%s.o\n' $(LATE)

# for tests/tsan.t
library-sources:
	@printf '%s\n' $(PRELOAD:$(B)/pic/%.o=%.c)

# ---- install ----
INSTALL = install
SUBST = sed -e 's|@sbindir@|$(sbindir)|g' -e 's|@bindir@|$(bindir)|g' -e 's|@sysconfdir@|$(sysconfdir)|g' -e 's|@libdir@|$(libdir)|g' -e 's|@VERSION@|$(VERSION)|g'
MAN := $(wildcard man/*.[1-8])
man_of = $(DESTDIR)$(mandir)/man$(patsubst .%,%,$(suffix $(1)))/$(notdir $(1))
DATA := $(systemdsystemunitdir)/iwarpd.service $(systemdsystemunitdir)/iwarpd.socket \
	$(systemdsystemunitdir)/iwarp-metrics.socket $(systemdsystemunitdir)/iwarp-metrics@.service $(sysusersdir)/iwarpd.conf $(tmpfilesdir)/iwarpd.conf \
	$(dbuspolicydir)/org.iwsock.Daemon1.conf $(bashcompdir)/iwctl $(catalogdir)/iwarpd.catalog
from = conf/$(strip $(if $(findstring sysusers,$(1)),iwarpd.sysusers,$(if $(findstring tmpfiles,$(1)),iwarpd.tmpfiles,\
	$(if $(findstring completion,$(1)),iwctl.bash,$(notdir $(1))))))
SETTINGS := iwarpd.conf iwsock.conf
confdir = $(DESTDIR)$(sysconfdir)/iwsock

# Debian's iwd has an iwctl, too: a second name for whoever has both
SECOND := $(bindir)/iwarpctl $(mandir)/man8/iwarpctl.8 $(bashcompdir)/iwarpctl

put = printf '  %-6s %s\n' INST $(2) && $(INSTALL) -d $(dir $(2)) && $(1)
install: all
	$(Q)$(if $(DESTDIR),,packaging/pre-install conf/iwarpd.sysusers)
	$(Q)$(call put,$(INSTALL) -m 755 $(B)/iwarpd $(DESTDIR)$(sbindir)/iwarpd,$(DESTDIR)$(sbindir)/iwarpd)
	$(Q)$(call put,$(INSTALL) -m 755 $(B)/iwctl $(DESTDIR)$(bindir)/iwctl,$(DESTDIR)$(bindir)/iwctl)
	$(Q)$(call put,$(SUBST) conf/iwrun >$(DESTDIR)$(bindir)/iwrun && chmod 755 $(DESTDIR)$(bindir)/iwrun,$(DESTDIR)$(bindir)/iwrun)
	$(Q)$(call put,$(INSTALL) -m 755 $(B)/libiwsock.so $(DESTDIR)$(libdir)/libiwsock.so,$(DESTDIR)$(libdir)/libiwsock.so)
	$(Q)$(foreach m,$(MAN),$(call put,$(INSTALL) -m 644 $(m) $(call man_of,$(m)),$(call man_of,$(m))) &&) :
	$(Q)$(foreach d,$(addprefix $(DESTDIR),$(DATA)),$(call put,$(SUBST) $(call from,$(d)) >$(d) && chmod 644 $(d),$(d)) &&) :
	$(Q)$(foreach l,$(addprefix $(DESTDIR),$(SECOND)),$(call put,ln -sf $(subst iwarpctl,iwctl,$(notdir $(l))) $(l),$(l)) &&) :
	$(Q)$(foreach c,$(SETTINGS),{ test -e $(confdir)/$(c) || { $(call put,$(INSTALL) -m 644 conf/$(c) $(confdir)/$(c),$(confdir)/$(c)); }; } &&) :
	$(Q)$(if $(DESTDIR),,packaging/post-install $(systemdsystemunitdir))

# Settings that were changed stay.
uninstall:
	$(Q)$(if $(DESTDIR),,packaging/pre-uninstall $(systemdsystemunitdir) $(bindir))
	$(Q)for f in $(addprefix $(DESTDIR),$(SECOND) $(sbindir)/iwarpd $(bindir)/iwctl $(bindir)/iwrun $(libdir)/libiwsock.so $(DATA)) $(foreach m,$(MAN),$(call man_of,$(m))); do \
		test ! -e $$f || printf '  %-6s %s\n' RM $$f; rm -f $$f; done
	$(Q)for c in $(SETTINGS); do f=$(confdir)/$$c; test -e $$f || continue; \
		if cmp -s conf/$$c $$f; then printf '  %-6s %s\n' RM $$f; rm -f $$f; else echo "$$f was changed: it stays"; fi; done
	$(Q)rmdir $(confdir) 2>/dev/null || :
	$(Q)$(if $(DESTDIR),,packaging/post-uninstall)

# ---- packages ----
deb:
	$(Q)packaging/deb build/deb

# ---- housekeeping ----
dist: configure
	v=$$(sed -n 's/^AC_INIT(\[iwsock\], \[\(.*\)\])/\1/p' configure.ac) && \
	git archive --prefix=iwsock-$$v/ --add-file=configure -o iwsock-$$v.tar.gz HEAD && echo iwsock-$$v.tar.gz
SOURCES = $(wildcard proto/*.[ch] daemon/*.[ch] daemon/*/*.[ch] iwctl/*.[ch] preload/*.[ch] preload/*/*.[ch] tests/*/*.[ch] tests/sock/*/*.c)
format:
	clang-format -i $(SOURCES)
lint: config.mk
	$(Q)found=; \
	if command -v cppcheck >/dev/null; then found=1; cppcheck -q -j2 --std=c11 --error-exitcode=1 --inline-suppr \
		--suppressions-list=.cppcheck --enable=warning,portability -D__x86_64__ -D__linux__ \
		--platform=unix64 -D__LP64__ -D__OFF_T_MATCHES_OFF64_T \
		'-Djson_array_foreach(a,i,v)=while (json_each(a, i, v))' $(DEFS) proto daemon iwctl preload || exit 1; fi; \
	if command -v clang-tidy >/dev/null; then found=1; printf '%s\0' $(filter-out tests/%,$(filter %.c,$(SOURCES))) | \
		xargs -0 -I{} -P2 clang-tidy --quiet --warnings-as-errors='*' {} -- -std=gnu11 $(DEFS) 2>/dev/null || exit 1; fi; \
	if [ -z "$$found" ]; then echo "neither cppcheck nor clang-tidy found: on Debian, apt-get install cppcheck clang-tidy" >&2; exit 1; fi
clean:
	rm -rf build
distclean: clean
	rm -rf autom4te.cache config.mk config.log config.status configure configure~ aclocal.m4 iwsock-*.tar.gz

-include $(shell find $(B) build/fuzz -name '*.d' 2>/dev/null)
always:
.PHONY: all always same late-objects library-sources help tests check check-interop check-verbs interop-programs check-boot fuzz fuzzers demo bench bench-price bench-pause bench-worth bench-idle bench-rnic bench-guest install uninstall deb dist format lint clean distclean
.DELETE_ON_ERROR:
