/* SPDX-License-Identifier: MIT */
/* Probes for tracers (USDT), by SystemTap's header: a nop each until somebody looks; without it, or with configure --disable-usdt, there are none. */
#ifndef IW_PROTO_PROBE_H
#define IW_PROTO_PROBE_H

#if HAVE_SDT
#include <sys/sdt.h>
#define IW_PROBE1(provider, name, a)		STAP_PROBE1(provider, name, a)
#define IW_PROBE2(provider, name, a, b)		STAP_PROBE2(provider, name, a, b)
#define IW_PROBE3(provider, name, a, b, c)	STAP_PROBE3(provider, name, a, b, c)
#define IW_PROBE4(provider, name, a, b, c, d)	STAP_PROBE4(provider, name, a, b, c, d)
#else
#define IW_PROBE1(provider, name, a)		((void)(a))
#define IW_PROBE2(provider, name, a, b)		((void)(a), (void)(b))
#define IW_PROBE3(provider, name, a, b, c)	((void)(a), (void)(b), (void)(c))
#define IW_PROBE4(provider, name, a, b, c, d)	((void)(a), (void)(b), (void)(c), (void)(d))
#endif

#endif
