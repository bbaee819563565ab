// SPDX-License-Identifier: MIT
/* An echo server and its client, with blocking sockets or a Selector: java Echo.java (blocking|nio)-(server|client) HOST PORT [CONNECTIONS ROUNDS MORE]: so many rounds, and more as long as there is a file MORE */
import java.io.File;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

public class Echo {
	static File more;

	static byte[] message(int me, int round) {
		byte[] m = new byte[1 + (me * 7 + round * 131) % 5000];

		for (int i = 0; i < m.length; i++)
			m[i] = (byte) (me * 31 + round * 17 + i);
		return m;
	}

	static void serveOne(Socket s) {
		try (s; InputStream in = s.getInputStream(); OutputStream out = s.getOutputStream()) {
			byte[] b = new byte[4096];

			for (int n; (n = in.read(b)) > 0;)
				out.write(b, 0, n);
		} catch (Exception e) {
			e.printStackTrace();
		}
	}

	static void blockingServer(InetSocketAddress at) throws Exception {
		ServerSocket l = new ServerSocket(at.getPort(), 100, at.getAddress());

		while (true) {
			Socket s = l.accept();

			new Thread(() -> serveOne(s)).start();
		}
	}

	static void blockingOne(InetSocketAddress to, int me, int rounds) throws Exception {
		try (Socket s = new Socket()) {
			s.connect(to, 60000);
			s.setSoTimeout(120000);
			for (int i = 0; i < rounds || more.exists(); i++) {
				byte[] m = message(me, i);

				s.getOutputStream().write(m);
				if (!Arrays.equals(m, s.getInputStream().readNBytes(m.length)))
					throw new Exception("connection " + me + ", round " + i + ": other octets");
			}
			s.shutdownOutput();
			if (s.getInputStream().read() != -1)
				throw new Exception("connection " + me + ": more than was sent");
		}
	}

	static void blockingClient(InetSocketAddress to, int conns, int rounds) throws Exception {
		ExecutorService pool = Executors.newFixedThreadPool(conns);
		List<Future<?>> all = new ArrayList<>();

		for (int i = 0; i < conns; i++) {
			int me = i;

			all.add(pool.submit(() -> {
				blockingOne(to, me, rounds);
				return null;
			}));
		}
		for (Future<?> f : all)
			f.get();
		pool.shutdown();
	}

	static void nioServer(InetSocketAddress at) throws Exception {
		Selector sel = Selector.open();
		ServerSocketChannel l = ServerSocketChannel.open();

		l.bind(at, 100);
		l.configureBlocking(false);
		l.register(sel, SelectionKey.OP_ACCEPT);
		while (true) {
			sel.select();
			for (Iterator<SelectionKey> it = sel.selectedKeys().iterator(); it.hasNext();) {
				SelectionKey k = it.next();

				it.remove();
				if (k.isAcceptable()) {
					SocketChannel c = l.accept();

					if (c == null)
						continue;
					c.configureBlocking(false);
					c.register(sel, SelectionKey.OP_READ, ByteBuffer.allocateDirect(4096));
					continue;
				}
				SocketChannel c = (SocketChannel) k.channel();
				ByteBuffer b = (ByteBuffer) k.attachment();

				if (k.isReadable()) {
					b.clear();
					if (c.read(b) < 0) {
						c.close();
						continue;
					}
					b.flip();
				}
				c.write(b);
				k.interestOps(b.hasRemaining() ? SelectionKey.OP_WRITE : SelectionKey.OP_READ);
			}
		}
	}

	/* One connection of the client with a Selector: what is sent and what has to come back. */
	static class Conn {
		int me, round;
		boolean said;	/* all of it */
		ByteBuffer out, in;

		Conn(int me) {
			this.me = me;
			next();
		}

		void next() {
			out = ByteBuffer.wrap(message(me, round));
			in = ByteBuffer.allocate(out.capacity());
		}
	}

	static void nioClient(InetSocketAddress to, int conns, int rounds) throws Exception {
		Selector sel = Selector.open();
		int left = conns;

		for (int i = 0; i < conns; i++) {
			SocketChannel c = SocketChannel.open();

			c.configureBlocking(false);
			c.connect(to);
			c.register(sel, SelectionKey.OP_CONNECT, new Conn(i));
		}
		while (left > 0) {
			if (sel.select(120000) == 0)
				throw new Exception("nothing came for two minutes");
			for (Iterator<SelectionKey> it = sel.selectedKeys().iterator(); it.hasNext();) {
				SelectionKey k = it.next();
				SocketChannel c = (SocketChannel) k.channel();
				Conn x = (Conn) k.attachment();

				it.remove();
				if (k.isConnectable())
					c.finishConnect();
				if (x.out.hasRemaining())
					c.write(x.out);
				if (k.isReadable()) {
					int n = x.said ? c.read(ByteBuffer.allocate(1)) : c.read(x.in);

					if (x.said && n < 0) {
						c.close();
						left--;
						continue;
					}
					if (n < 0 || x.said && n > 0)
						throw new Exception("connection " + x.me + ", round " + x.round + ": " + n);
					if (!x.in.hasRemaining() && !x.said) {
						if (!Arrays.equals(x.in.array(), message(x.me, x.round)))
							throw new Exception("connection " + x.me + ", round " + x.round + ": other octets");
						if (++x.round < rounds || more.exists()) {
							x.next();
							c.write(x.out);
						} else {
							x.said = true;
							c.shutdownOutput();
						}
					}
				}
				k.interestOps(SelectionKey.OP_READ | (x.out.hasRemaining() ? SelectionKey.OP_WRITE : 0));
			}
		}
	}

	public static void main(String[] a) throws Exception {
		InetSocketAddress at = new InetSocketAddress(InetAddress.getByName(a[1]), Integer.parseInt(a[2]));

		more = new File(a.length > 5 ? a[5] : "");
		switch (a[0]) {
		case "blocking-server":
			blockingServer(at);
			break;
		case "nio-server":
			nioServer(at);
			break;
		case "blocking-client":
			blockingClient(at, Integer.parseInt(a[3]), Integer.parseInt(a[4]));
			break;
		case "nio-client":
			nioClient(at, Integer.parseInt(a[3]), Integer.parseInt(a[4]));
			break;
		default:
			throw new Exception("no " + a[0]);
		}
		System.out.println(a[3] + " connections, " + a[4] + " rounds each");
	}
}
