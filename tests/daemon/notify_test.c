/* SPDX-License-Identifier: MIT */
/* A service manager that does not read does not hold up the daemon; names of both kinds reach it. */
#include <sys/un.h>

#include "util.h"

#include "daemon/base/notify.h"

static void told(const char *name)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char buf[64] = "";

	memcpy(a.sun_path, name, strlen(name));
	if (*name == '@')
		a.sun_path[0] = 0;
	assert_int_equal(bind(fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))), 0);
	setenv("NOTIFY_SOCKET", name, 1);
	alarm(20);
	for (int i = 0; i < 10000; i++)
		notify("STATUS=%d", i);
	alarm(0);
	assert_true(recv(fd, buf, sizeof(buf) - 1, MSG_DONTWAIT) > 0);
	assert_string_equal(buf, "STATUS=0");
	close(fd);
}

static void a_path(void **state)
{
	char dir[] = "/tmp/iwt-notify.XXXXXX", name[64];

	assert_non_null(mkdtemp(dir));
	snprintf(name, sizeof(name), "%s/sock", dir);
	told(name);
	unlink(name);
	rmdir(dir);
}

static void an_abstract_name(void **state)
{
	char name[64];

	snprintf(name, sizeof(name), "@iwt-notify.%d", (int)getpid());
	told(name);
}

static void nobody(void **state)
{
	unsetenv("NOTIFY_SOCKET");
	notify("STATUS=x");
	setenv("NOTIFY_SOCKET", "/nonexistent/socket", 1);
	notify("STATUS=x");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_path), cmocka_unit_test(an_abstract_name), cmocka_unit_test(nobody) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
