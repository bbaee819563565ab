/* SPDX-License-Identifier: MIT */
/*
 * A pair of one host that is relayed at one end becomes direct again (docs/rings.md, 5): the library of that end asks when it has read all, the daemon
 * stops when nothing is on its way, offers the carrier that it holds, and keeps it until the word in the page says that it was taken. What is
 * read is what was sent, in order, in both directions; nobody is told an end or a reset but by a death; whoever dies, and however late an answer comes.
 *
 * Covered: asking several times, a refusal, an answer that comes too late; deaths of the program and of the daemon at every step.
 * Left to others: how a pair comes to be relayed (tests/rest.pml).
 */
#define N 2		/* octets of each direction */
#define K 2		/* octets of a carrier */
#define TRIES 2

mtype = { ON, ASKED, OFFERED, NONE };

chan c_up = [K] of { byte };	/* the carrier, from the other end; */
chan c_down = [K] of { byte };	/* to it */
chan n_up = [K] of { byte };	/* that of the end that is relayed */
chan n_down = [K] of { byte };
byte c_held = 1;		/* descriptors of this end of the carrier: the daemon's, one in a message, the program's */
bool n_daemon = true, n_program = true;	/* the two ends of the other one */

mtype word = ON;		/* in the page */
bool fin;			/* recorded for the other end: this one has closed */

bool asked, answered, yes;	/* a request, and its answer */
bool told;			/* what has become of it; or the connection is broken */
bool direct, has;		/* the program goes by the carrier itself; it has a descriptor of it */
bool program_dead, daemon_dead;
byte sent_up, got_up, sent_down, got_down;

inline cas(from, to, done)
{
	atomic {
		if
		:: word == from -> word = to; done = true
		:: else -> done = false
		fi
	}
}

proctype Other()
{
	byte v;

	do
	:: d_step { sent_up < N && c_held > 0 && nfull(c_up) -> c_up!sent_up; sent_up++ }
	:: d_step { nempty(c_down) -> c_down?v; assert(v == got_down); got_down++; v = 0 }
	:: c_held == 0 && empty(c_down) ->
		if
		:: fin || word == NONE -> assert(program_dead && got_down == sent_down)
		:: else -> assert(daemon_dead)
		fi;
		break
	:: sent_up == N && got_down == N -> break
	od
}

proctype Program()
{
	byte v, tries;
	bool done;

	{
	do
	:: d_step { !direct && nempty(n_up) -> n_up?v; assert(v == got_up); got_up++; v = 0 }
	:: d_step { !direct && n_daemon && sent_down < N && nfull(n_down) -> n_down!sent_down; sent_down++ }
	:: !direct && !n_daemon && empty(n_up) -> assert(daemon_dead && word != NONE); break	/* a reset */
	:: d_step { direct && nempty(c_up) -> c_up?v; assert(v == got_up); got_up++; v = 0 }
	:: d_step { direct && sent_down < N && nfull(c_down) -> c_down!sent_down; sent_down++ }
	:: !direct && n_daemon && tries < TRIES && empty(n_up) ->
		tries++;
		cas(ON, ASKED, done);
		answered = false;
		yes = false;
		told = false;
		asked = true;
		do
#ifdef FAULT_GATE
		:: d_step { n_daemon && sent_down < N && nfull(n_down) -> n_down!sent_down; sent_down++ }
#endif
		:: answered && !yes -> break
		:: d_step { answered && yes ->
			yes = false; has = true }
#ifdef FAULT_TAKE
			word = NONE;
			done = true;
#else
			cas(OFFERED, NONE, done);
#endif
			if
			:: done ->
				d_step { done = false; direct = true; n_program = false }
			:: else ->
				d_step { c_held--; has = false }
			fi;
			told = true;
			break
		:: daemon_dead && !answered -> break
		:: true ->	/* it takes too long: the connection is broken, what comes then is closed */
			atomic { told = true; if :: yes -> yes = false; c_held-- :: else fi };
			tries = TRIES;
			break
		od
	:: got_up == N && sent_down == N && (tries == TRIES || direct) -> break
	od
	} unless { program_dead };
	if
	:: program_dead ->
		d_step {
			tries = 0; done = false;	/* who is dead knows nothing, and what nobody looks at any more is forgotten: fewer states */
			n_program = false;
			told = true;
			if :: has -> c_held-- :: else fi;
			if :: yes -> yes = false; c_held-- :: else fi
		}
	:: else
	fi
}

proctype Daemon()
{
	byte up, down, v;	/* in hand, + 1 */
	bool done;

	{
	do
	:: d_step { up == 0 && nempty(c_up) -> c_up?v; up = v + 1; v = 0 }
	:: d_step { up > 0 && nfull(n_up) && n_program -> n_up!(up - 1); up = 0 }
	:: d_step { down == 0 && nempty(n_down) -> n_down?v; down = v + 1; v = 0 }
	:: d_step { down > 0 && nfull(c_down) -> c_down!(down - 1); down = 0 }
	:: !n_program && down == 0 && empty(n_down) -> fin = true; goto over
	:: asked ->
		asked = false;
		if	/* requests that wait for octets end, or bring some */
		:: d_step { up == 0 && nempty(c_up) -> c_up?v; up = v + 1; v = 0 }
		:: true
		fi;
		if
		:: d_step { down == 0 && nempty(n_down) -> n_down?v; down = v + 1; v = 0 }
		:: true
		fi;
		done = true;
#ifndef FAULT_HAND
		done = done && up == 0 && down == 0;
#endif
#ifndef FAULT_READ
		done = done && empty(n_up);
#endif
#ifndef FAULT_SENT
		done = done && empty(n_down);
#endif
		if
		:: done -> cas(ASKED, OFFERED, done)
		:: else
		fi;
		if
		:: !done ->
			cas(ASKED, ON, done);
			atomic { done = false; if :: !told -> answered = true :: else fi }
		:: else ->
			atomic { answered = true; if :: !told -> yes = true; c_held++ :: else fi };
#ifdef FAULT_KEEP
			d_step { c_held--; n_daemon = false };
			goto out;
#endif
			if
			:: told
			:: true		/* the connection is broken, which the program has not seen */
			fi;
#ifdef FAULT_SETTLE
			done = true;
#else
			cas(OFFERED, ON, done);
#endif
			if
			:: word == NONE && !done -> goto over
			:: atomic { else -> done = false }
			fi
		fi
	:: got_up == N && got_down == N && !asked -> goto out
	od;
over:	skip;
	d_step { c_held--; n_daemon = false };
out:	skip
	} unless { daemon_dead };
	if
	:: daemon_dead -> d_step { up = 0; down = 0; done = false; if :: n_daemon -> c_held--; n_daemon = false :: else fi }
	:: else
	fi
}

init {
	atomic {
		run Other();
		run Program();
		run Daemon()
	}
	if
	:: true -> program_dead = true
	:: true -> daemon_dead = true
	:: true
	fi
}
