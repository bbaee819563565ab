// SPDX-License-Identifier: MIT
/* fdopen: lines by fprintf and fgets, buffered and not, and a large fread. */
#include "../sock.h"

static void server(int fd)
{
	FILE *r = fdopen(fd, "r"), *w = fdopen((int)ok(dup(fd)), "w");
	char line[128];

	must(r && w);
	while (fgets(line, sizeof(line), r)) {
		if (!strcmp(line, ".\n"))
			break;
		fprintf(w, "you said %s", line);
		fflush(w);
	}
	for (int i = 0; i < 100000; i++)
		fputc(t_octet((uint64_t)i, 2), w);
	fclose(w);
	fclose(r);
	say("closed");
}

static void client(int fd)
{
	static uint8_t b[100000];
	FILE *f = fdopen(fd, "r+");
	char line[128];

	must(f);
	for (int i = 0; i < 3; i++) {
		fprintf(f, "line %d\n", i);
		fflush(f);
		must(fgets(line, sizeof(line), f));
		say("%.*s", (int)strcspn(line, "\n"), line);
	}
	fprintf(f, ".\n");
	fflush(f);
	must(fread(b, 1, sizeof(b), f) == sizeof(b));
	t_same(b, sizeof(b), 0, 2);
	say("end %d", fgetc(f) == EOF && feof(f) && !ferror(f));
	step("fclose", fclose(f));
}

SOCK_PAIR(server, client)
