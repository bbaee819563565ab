// SPDX-License-Identifier: MIT
// An echo server, on the next port the same by HTTP, and clients: node echo.js server|client|http-client HOST PORT [CONNECTIONS ROUNDS [MORE]]; the
// client has so many rounds, and more as long as there is a file MORE
'use strict';
const fs = require('fs');
const net = require('net');
const http = require('http');
const [what, host, port, conns, rounds] = process.argv.slice(2).map((v, i) => (i < 2 ? v : Number(v)));
const more = process.argv[7] || '';

function message(me, round) {
	return Buffer.alloc(1 + ((me * 7 + round * 131) % 5000), `connection ${me}, round ${round};`);
}

function server() {
	net.createServer({ allowHalfOpen: true }, (s) => s.pipe(s)).listen(port, host, 100, () => {
		http.createServer((req, res) => req.pipe(res)).listen(port + 1, host);
	});
}

function one(me) {
	return new Promise((done, bad) => {
		const s = net.connect({ host, port, allowHalfOpen: true }, () => s.write(message(me, 0)));
		let got = [], len = 0, round = 0, said = false;	// all of it

		s.on('data', (b) => {
			got.push(b);
			len += b.length;
			if (said || len > message(me, round).length)
				return bad(new Error(`connection ${me}: more than was sent`));
			if (len < message(me, round).length)
				return undefined;
			if (!Buffer.concat(got).equals(message(me, round)))
				return bad(new Error(`connection ${me}, round ${round}: other octets`));
			got = [];
			len = 0;
			round++;
			said = round >= rounds && !fs.existsSync(more);
			return said ? s.end() : s.write(message(me, round));
		});
		s.on('end', () => (said ? done() : bad(new Error(`connection ${me}: ends in round ${round}`))));
		s.on('error', bad);
	});
}

function request(agent, me, round) {
	return new Promise((done, bad) => {
		const req = http.request({ host, port, agent, method: 'POST', path: '/' }, (res) => {
			const got = [];

			res.on('data', (b) => got.push(b));
			res.on('end', () => (Buffer.concat(got).equals(message(me, round)) ? done() : bad(new Error(`${me}, ${round}: other octets`))));
		});

		req.on('error', bad);
		req.end(message(me, round));
	});
}

async function httpOne(me) {
	const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

	for (let i = 0; i < rounds; i++)
		await request(agent, me, i);
	agent.destroy();
}

async function all(fn, unit) {
	await Promise.all(Array.from({ length: conns }, (_, i) => fn(i)));
	console.log(`${conns} connections, ${rounds} ${unit} each`);
}

function failed(e) {
	console.log(String(e));
	process.exit(1);
}

if (what === 'server')
	server();
else if (what === 'client')
	all(one, 'rounds').catch(failed);
else
	all(httpOne, 'requests').catch(failed);
