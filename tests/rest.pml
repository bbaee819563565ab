/* SPDX-License-Identifier: MIT */
/*
 * An end of a pair of one host is handed to who does not know of rings, with octets left in its ring (docs/rings.md, 5): the daemon takes these, gives
 * another carrier in which they come first, and relays. What is read is what was sent, in order; an end is told only where it is one, a reset only where
 * something has gone wrong; and both ends come to an end, whoever dies at whatever step, and however late an answer comes.
 *
 * Octets of the other direction may lie in the other end's ring: it reads them, or closes with them unread, which is a reset.
 *
 * Covered: the giver, who waits for the daemon for a while; a reader (another thread, a child) before, meanwhile and behind that; the other
 * end, which sends and then waits for the end; deaths of all three, of the daemon before and after it answered, with a next one that is asked then.
 * Left to others: the ring before it was shut (tests/ring.pml). The cut is in the sizes: one or two octets in the ring, three in all, carriers of two.
 */
#define N 3		/* octets of the other end, the first ones of which are in the ring */
#define K 2		/* octets of a carrier */

mtype = { OPEN, FIN, RST };

byte ring;			/* octets left in it: the first ones */
chan c = [K] of { byte };	/* the carrier, towards the end that is handed on */
chan n = [K] of { byte };	/* the new one */
byte c_held = 1;		/* descriptors of this end of it: its program's, and the daemon's, which is in the message */
bool c_cut;			/* shut down in both directions */
bool c_ended, c_gone;		/* the other end's half is closed; the end itself */
bool n_ended, n_gone;		/* the same of the daemon's end of the new one */
bool n_cut;
bool n_held = true;		/* this end of it: in the answer, or the program's */

byte there;			/* octets of the other direction, in its ring */
bool closed;			/* the other end, at once, without having shut its half before */

bool relayed;			/* the page: */
mtype mine = OPEN, theirs = OPEN;

bool taken;			/* by a daemon, what was in the ring */
bool asked, answered;
bool given;			/* the new carrier is in place of the old one */
bool held;			/* nobody of the process takes anything meanwhile */
bool next;			/* another daemon, and what it has: nobody ends it */
bool gave_up;
bool program_dead, daemon_dead, other_dead;
byte sent, got;
bool said_fin, said_rst;	/* to the reader */
byte buf;			/* what the daemon has in hand, + 1 */

inline take(v) { assert(v == got); got++; v = 0 }	/* and v is forgotten, as whatever nobody looks at any more: fewer states */

/* What the library makes of a hang-up. */
inline verdict(state)
{
	d_step {
		if
		:: state == RST || (relayed && state != FIN) -> said_rst = true
		:: else -> said_fin = true
		fi
	}
}

proctype Other()
{
	{
	sent = ring;
	do
	:: sent < N && (c_held == 0 || c_cut) -> goto over	/* EPIPE */
	:: d_step { sent < N && c_held > 0 && !c_cut && nfull(c) -> c!sent; sent++ }
	:: there > 0 -> there--
	:: true -> break		/* not all of it */
	od;
	if
	:: d_step { true -> closed = true; c_ended = true; c_gone = true }; goto over
	:: true
	fi;
	c_ended = true;
	(c_held == 0 || c_cut);
	if	/* an end is one only where the other program has closed, or is dead */
	:: theirs == RST || (relayed && theirs != FIN) -> assert(gave_up || daemon_dead || program_dead || other_dead || said_rst || got < sent)
	:: else -> assert(program_dead || said_fin || said_rst)
	fi;
over:	c_ended = true; c_gone = true
	} unless { other_dead };
	c_ended = true;
	c_gone = true
}

proctype Giver()
{
	{
	held = true;
	if
	:: ring > 0 && !daemon_dead -> d_step { c_held++; asked = true }
	:: ring > 0 && daemon_dead -> goto reset
	fi;
wait:	if
	:: answered ->
		d_step { c_held--; given = true }
	:: daemon_dead && !answered && (next || !n_gone) -> goto reset	/* nobody comes in time */
	:: daemon_dead && !answered && !next && n_gone ->
#ifndef FAULT_AGAIN
		if	/* what the one before has taken of it nobody has */
		:: relayed -> goto reset
		:: else
		fi;
#endif
		atomic {
			next = true;
			c_held++;
			n_gone = false;
			do :: nempty(n) -> n?_ :: empty(n) -> break od;
			run Daemon(true)
		};
		goto wait
	:: true ->		/* it takes too long */
reset:
#ifdef FAULT_LATE
		skip;
#else
		mine = RST;
		theirs = RST;
#endif
		gave_up = true;
#ifndef FAULT_RESET
		c_cut = true;
#ifndef FAULT_DRAIN
		do
		:: d_step { nempty(c) -> c?_ }
		:: empty(c) -> break
		od;
#endif
#endif
		n_held = false	/* whenever it comes: nobody wants it */
	fi;
	held = false
	} unless { program_dead }
}

proctype Reader()
{
	byte v;

	{
	skip;
#ifndef FAULT_HELD
	(!held && (given || gave_up));
#else
	(asked || gave_up);
#endif
	do
	:: d_step { given && nempty(n) -> n?v; take(v) }
	:: given && empty(n) && (n_ended || n_gone || n_cut) ->
		/* octets may have come between */
		if
		:: nempty(n) -> skip
		:: empty(n) -> verdict(mine); break
		fi
	:: d_step { !given && nempty(c) -> c?v; take(v) }
	:: !given && empty(c) && (c_ended || c_gone || c_cut) ->
		if
		:: nempty(c) || given -> skip
		:: empty(c) && !given -> verdict(mine); break
		fi
	od;
	assert(!said_fin || (got == sent && c_ended));
	assert(!said_fin || !closed || there == 0);
	assert(!said_rst || gave_up || daemon_dead || other_dead || (closed && there > 0));
	/* it closes */
	d_step {
		if
		:: given -> n_held = false
		:: else -> c_held--
		fi
	}
	} unless { program_dead };
	if
	:: program_dead ->
		d_step {
			if
			:: given || answered -> n_held = false; if :: !given && !said_fin && !said_rst -> c_held-- :: else fi
			:: !said_fin && !said_rst -> c_held--
			:: else
			fi;
			n_held = false
		}
	:: else
	fi
}

/* Records come before what they are of can be seen. */
inline record(state, what)
{
#ifdef FAULT_CAS
	state = what
#else
	d_step { if :: state == OPEN -> state = what :: else fi }
#endif
}

proctype Daemon(bool second)
{
	byte i, v;
	bool up_over;

	{
	(asked || gave_up || program_dead);
	if
	:: asked
	:: !asked -> goto out
	fi;
#ifndef FAULT_RELAYED
	relayed = true;
#endif
	d_step { i = (taken -> ring : 0); taken = true };
	do	/* what was left comes first */
	:: d_step { i < ring && nfull(n) -> n!i; i++ }
	:: i == ring -> break
	:: i < ring && full(n) -> break
	od;
	answered = true;
#ifdef FAULT_RELAYED
	relayed = true;
#endif
	do
	:: d_step { !up_over && i < ring && nfull(n) -> n!i; i++ }
	:: d_step { !up_over && i == ring && buf == 0 && nempty(c) -> c?v; buf = v + 1; v = 0 }
	:: d_step { !up_over && i == ring && buf > 0 && nfull(n) && n_held -> n!(buf - 1); buf = 0 }
	:: !up_over && !n_held ->	/* nobody reads it */
		record(theirs, (len(n) > 0 || buf > 0 || i < ring -> RST : FIN));
		goto finish
	:: !up_over && i == ring && buf == 0 && empty(c) && (c_ended || c_gone || c_cut) ->
		if
		:: nempty(c) -> skip
		:: empty(c) ->
			up_over = true;
#ifdef FAULT_RECORD
			n_ended = true;
			record(mine, FIN);
#else
#ifdef FAULT_THERE
			record(mine, FIN);
#else
			record(mine, (c_gone && there > 0 -> RST : FIN));
#endif
			n_ended = true;
#endif
			if
			:: c_gone || c_cut -> goto finish
			:: else
			fi
		fi
	:: up_over && !n_held ->
		record(theirs, (len(n) > 0 -> RST : FIN));
		goto finish
	od;
finish:
	c_cut = true;
	n_cut = true
out:	skip
	} unless { daemon_dead && !second };
	d_step {
		i = 0; up_over = false;
		n_gone = true;
		if :: asked -> c_held-- :: else fi
	}
}

init {
	atomic {
		if :: ring = 1 :: ring = 2 fi;
		if :: there = 0 :: there = 1 fi;
		sent = ring;
		run Other();
		run Giver();
		run Reader();
		run Daemon(false)
	}
	if
	:: true -> program_dead = true
	:: true -> daemon_dead = true
	:: true -> other_dead = true
	:: true
	fi
}
