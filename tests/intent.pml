/* SPDX-License-Identifier: MIT */
/* Intents: T threads of one process count their connects in shared memory (one bucket); the daemon D answers claims of a server. A claim is
 * answered no only when the intent of its connection has ended, and one that waits is answered without a timer.
 * listed: D looks at the counter when a claim comes; ends: D wants to hear when the count falls to 0. Both are in shared memory. */
#define T 2
#define ROUNDS 2
mtype = { OFFER, RAISED, ENDED };
byte count = 0;
bool listed = 1, ends = 0;               /* a new process is listed */
chan ctl = [6] of { mtype, byte };       /* control connection of the process */
chan ack[T] = [0] of { bit };
chan claim = [T] of { byte };            /* that of the server */
byte st[T];                              /* 0 none, 1 intent open, 2 offered, 3 ended without an offer */
bool asked[T], answered[T];
bool waiting[T];                         /* claims that wait in D */
byte nwait = 0;
proctype L(byte i) {
  byte r = 0; bool last, tell;
  do
  :: r == ROUNDS -> break
  :: else ->
     st[i] = 0; asked[i] = 0; answered[i] = 0;
     atomic { count++; st[i] = 1 };
     if
     :: listed -> skip
     :: else -> ctl!RAISED(i); ack[i]?_
     fi;
     if
     :: asked[i] = 1; claim!i;           /* connected: the server claims */
        if
        :: ctl!OFFER(i); ack[i]?_
        :: skip                          /* it failed afterwards: no offer */
        fi
     :: skip                             /* refused */
     fi;
     atomic { count--; last = (count == 0); if :: st[i] == 1 -> st[i] = 3 :: else -> skip fi };
     if
     :: last && ends -> atomic { tell = ends; ends = 0 };
        if :: tell -> ctl!ENDED(0) :: else -> skip fi
     :: else -> skip
     fi;
     !asked[i] || answered[i];           /* the next round is another connection */
     r++
  od
}
inline no(i) { assert(st[i] != 1); answered[i] = 1 }
inline unwait(i) { if :: waiting[i] -> waiting[i] = 0; nwait-- :: else -> skip fi }
inline await(i) { if :: !waiting[i] -> waiting[i] = 1; nwait++ :: else -> skip fi }
/* claim i: answer, or wait */
inline look(i) {
  if
  :: st[i] == 2 -> unwait(i); answered[i] = 1
  :: st[i] != 2 && !mine -> unwait(i); no(i)
  :: st[i] != 2 && mine ->
     unwait(i);
     ends = 1;
     if
     :: count > 0 -> await(i)
     :: count == 0 && nwait > 0 -> no(i)                     /* that one is heard of: ends was set for the others */
     :: count == 0 && nwait == 0 ->
        listed = 0; mine = 0; ends = 0;
        if
        :: count > 0 -> listed = 1; mine = 1; again = 1; await(i)   /* raised in between, perhaps before it looked at listed */
        :: else -> no(i)
        fi
     fi
  fi
}
inline claims() {
  do
  :: again = 0;
     j = 0;
     do :: j == T -> break :: else -> if :: waiting[j] || j == fresh -> look(j) :: else -> skip fi; j++ od;
     if :: again -> skip :: else -> break fi
  od;
  fresh = T
}
proctype D() {
  byte i, j, fresh = T; bool mine = 1, again = 0;
end:
  do
  :: claim?i -> fresh = i; claims()
  :: ctl?OFFER(i) -> st[i] = 2; if :: waiting[i] -> claims() :: else -> skip fi; ack[i]!1
  :: ctl?RAISED(i) -> listed = 1; mine = 1; ack[i]!1
  :: ctl?ENDED(_) -> claims()
  od
}
init { atomic { byte k = 0; do :: k == T -> break :: else -> run L(k); k++ od; run D() } }
