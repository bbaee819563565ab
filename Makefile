# SPDX-License-Identifier: MIT
# A plain `make` bootstraps itself: autoconf, configure, build. SAN=address,undefined or SAN=thread builds into its own directory.
ifeq ($(filter clean format dist,$(MAKECMDGOALS)),)
-include config.mk
endif
VERSION ?= 0.1.0
prefix ?= /usr/local
SAN ?=
B := build/$(if $(SAN),$(subst $(,),-,$(SAN)),plain)
, := ,
CFLAGS ?= -O2 -g
CPPFLAGS += -D_GNU_SOURCE -DIWSOCK_VERSION='"$(VERSION)"' $(URING_CFLAGS) $(SYSTEMD_CFLAGS)
WARN = -std=gnu11 -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wno-unused-parameter $(if $(CI),-Werror)
ALLCFLAGS = $(CFLAGS) $(WARN) -MMD -MP -fno-strict-aliasing $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
ALLLDFLAGS = $(LDFLAGS) $(if $(SAN),-fsanitize=$(SAN))

PROTO := $(patsubst %.c,$(B)/%.o,$(wildcard proto/*.c))
IWCTL := $(patsubst %.c,$(B)/%.o,$(wildcard daemon/iwctl*.c))
DAEMON := $(filter-out $(IWCTL) $(B)/daemon/main.o,$(patsubst %.c,$(B)/%.o,$(wildcard daemon/*.c)))
PRELOAD := $(patsubst %.c,$(B)/pic/%.o,$(wildcard preload/*.c) proto/ctlmsg.c proto/reason.c)
UNIT := $(patsubst tests/unit/%.c,$(B)/tests/unit/%,$(wildcard tests/unit/*.c))
DTEST := $(patsubst tests/daemon/%.c,$(B)/tests/daemon/%,$(wildcard tests/daemon/*.c))
SOCK := $(patsubst tests/sock/%.c,$(B)/tests/sock/%,$(wildcard tests/sock/*.c))

all: $(B)/iwarpd $(B)/iwctl $(B)/libiwsock.so

config.mk: configure config.mk.in
	./configure --prefix=$(prefix)
configure: configure.ac
	autoconf

$(B)/libproto.a: $(PROTO)
	rm -f $@ && $(AR) rcs $@ $^
$(B)/iwarpd: $(B)/daemon/main.o $(DAEMON) $(B)/libproto.a
	$(CC) $(ALLLDFLAGS) -o $@ $^ $(URING_LIBS) $(SYSTEMD_LIBS) -lm
$(B)/iwctl: $(IWCTL) $(B)/libproto.a
	$(CC) $(ALLLDFLAGS) -o $@ $^ $(SYSTEMD_LIBS)
$(B)/libiwsock.so: $(PRELOAD) preload/libiwsock.map
	$(CC) $(LDFLAGS) -shared -Wl,-z,nodelete,-z,now,-z,relro -Wl,--version-script=preload/libiwsock.map -Wl,-soname,libiwsock.so -o $@ $(PRELOAD) -ldl
$(B)/%.o: %.c | config.mk
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALLCFLAGS) -c -o $@ $<
# the library goes into strangers' processes: never sanitized, hidden by default
$(B)/pic/%.o: %.c | config.mk
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(WARN) -MMD -MP -fno-strict-aliasing -fPIC -fvisibility=hidden -c -o $@ $<
$(B)/tests/unit/%: tests/unit/%.c $(B)/libproto.a | config.mk
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALLCFLAGS) $(ALLLDFLAGS) -o $@ $< $(B)/libproto.a -lcmocka -lpthread
$(B)/tests/daemon/%: tests/daemon/%.c $(DAEMON) $(B)/libproto.a | config.mk
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(ALLCFLAGS) $(ALLLDFLAGS) -o $@ $< $(DAEMON) $(B)/libproto.a -lcmocka -lpthread $(URING_LIBS) $(SYSTEMD_LIBS) -lm
$(B)/tests/sock/%: tests/sock/%.c | config.mk
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(WARN) -MMD -MP -o $@ $< -lpthread

tests: all $(UNIT) $(DTEST) $(SOCK)
check: tests
	tests/run $(B)
clean:
	rm -rf build

-include $(shell find $(B) -name '*.d' 2>/dev/null)
.PHONY: all tests check clean
