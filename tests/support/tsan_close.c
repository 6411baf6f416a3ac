/*
 * syscall(2) for programs under ThreadSanitizer, which doesn't watch it. libuv closes its descriptors by it: to
 * ThreadSanitizer they would stay open, and whoever is given the number next would race with the connection that had it.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARGUMENTS 6

long syscall(long number, ...)
{
	long argument[ARGUMENTS];
	long (*next)(long, ...);
	va_list list;

	va_start(list, number);
	for (int i = 0; i < ARGUMENTS; i++)
		argument[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_close)
		return close((int)argument[0]);

	*(void **)&next = dlsym(RTLD_NEXT, "syscall");
	return next(number, argument[0], argument[1], argument[2], argument[3], argument[4],
		    argument[5]);
}
