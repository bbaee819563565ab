/* SPDX-License-Identifier: MIT */
/* Descriptors of our own, which the application must not meet. */
#ifndef IW_PRELOAD_INTERNAL_H
#define IW_PRELOAD_INTERNAL_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* Moved high, CLOEXEC, marked. Closes the old number. -errno (then the old one is closed as well). */
int iw_fd_hide(int fd);
void iw_fd_unhide_close(int fd);
/* Is it still ours? If it was closed behind our back the number may be the application's by now, and its mark is taken away. */
bool iw_internal_still(int fd);
/* The application is about to put something else at this number. */
void iw_internal_make_way(int fd);
/* Is there room for the two fds of an answer? One that finds none is lost, and with it what it stands for. */
bool iw_fd_room(int fd);

#pragma GCC visibility pop
#endif
