/*
 * C11's threads by POSIX's, for programs under ThreadSanitizer: it knows of threads and locks by the calls of pthread that it
 * intercepts, and gcc's does not intercept those of <threads.h>, by which librdkafka has its own. In glibc the types are the
 * same, or of the same layout.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <threads.h>

static_assert(sizeof(mtx_t) >= sizeof(pthread_mutex_t), "a mutex fits");
static_assert(sizeof(cnd_t) >= sizeof(pthread_cond_t), "a condition fits");

struct start {
	thrd_start_t run;
	void *data;
};

static int status_of(int error)
{
	return error == 0           ? thrd_success
	       : error == EBUSY     ? thrd_busy
	       : error == ETIMEDOUT ? thrd_timedout
				    : thrd_error;
}

static void *run(void *data)
{
	const struct start start = *(struct start *)data;

	free(data);
	return (void *)(intptr_t)start.run(start.data);
}

int thrd_create(thrd_t *thread, thrd_start_t function, void *data)
{
	struct start *start = malloc(sizeof *start);

	if (start == NULL)
		return thrd_nomem;
	*start = (struct start){function, data};
	int error = pthread_create(thread, NULL, run, start);

	if (error != 0)
		free(start);
	return status_of(error);
}

int thrd_join(thrd_t thread, int *ret_result)
{
	void *result;
	int error = pthread_join(thread, &result);

	if (error == 0 && ret_result != NULL)
		*ret_result = (int)(intptr_t)result;
	return status_of(error);
}

int mtx_init(mtx_t *mutex, int type)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_settype(&attributes, (type & mtx_recursive) != 0 ? PTHREAD_MUTEX_RECURSIVE
									   : PTHREAD_MUTEX_NORMAL);
	int error = pthread_mutex_init((pthread_mutex_t *)mutex, &attributes);

	pthread_mutexattr_destroy(&attributes);
	return status_of(error);
}

int mtx_lock(mtx_t *mutex)
{
	return status_of(pthread_mutex_lock((pthread_mutex_t *)mutex));
}

int mtx_trylock(mtx_t *mutex)
{
	return status_of(pthread_mutex_trylock((pthread_mutex_t *)mutex));
}

int mtx_unlock(mtx_t *mutex)
{
	return status_of(pthread_mutex_unlock((pthread_mutex_t *)mutex));
}

void mtx_destroy(mtx_t *mutex)
{
	pthread_mutex_destroy((pthread_mutex_t *)mutex);
}

int cnd_init(cnd_t *condition)
{
	return status_of(pthread_cond_init((pthread_cond_t *)condition, NULL));
}

int cnd_signal(cnd_t *condition)
{
	return status_of(pthread_cond_signal((pthread_cond_t *)condition));
}

int cnd_broadcast(cnd_t *condition)
{
	return status_of(pthread_cond_broadcast((pthread_cond_t *)condition));
}

int cnd_wait(cnd_t *condition, mtx_t *mutex)
{
	return status_of(pthread_cond_wait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex));
}

int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex,
		  const struct timespec *restrict until)
{
	return status_of(pthread_cond_timedwait((pthread_cond_t *)condition,
						(pthread_mutex_t *)mutex, until));
}

void cnd_destroy(cnd_t *condition)
{
	pthread_cond_destroy((pthread_cond_t *)condition);
}
