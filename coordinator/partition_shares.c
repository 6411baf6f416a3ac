#include "partition_shares.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

bool partition_shares_tell(struct partition *p, const struct global_terms *terms)
{
	bool ok = true;

	for (size_t i = 0; ok && !p->away && i < terms->n; i++)
		for (size_t r = 0; ok && r < terms->n_regions; r++) {
			const struct granter_sum *sum = &p->grants.sums[i];
			const struct share_sum shares = {sum->n_active, sum->region[r].share_ppm,
							 sum->region[r].floor_ppm};

			ok = book_set_shares(&p->book, slice_of(terms->policies[i].name),
					     slice_of(terms->region[r].name), shares) == KOVA_OK;
		}
	return ok;
}

void partition_shares_publish(const struct partition *list, const struct global_terms *terms,
			      struct coord_share *share)
{
	struct coord_shares *shares = terms->n > 0 ? calloc(terms->n, sizeof *shares) : NULL;

	for (size_t i = 0; shares != NULL && i < terms->n; i++) {
		strcpy(shares[i].policy, terms->policies[i].name);
		shares[i].n_regions = terms->n_regions;
		for (size_t r = 0; r < terms->n_regions; r++)
			strcpy(shares[i].region[r].name, terms->region[r].name);
		for (const struct partition *p = list; p != NULL; p = p->next)
			if (!p->away)
				granter_sum_add(&shares[i].sum, &p->grants.sums[i]);
	}
	pthread_mutex_lock(&share->lock);
	free(share->shares);
	share->shares = shares;
	share->n_shares = shares != NULL ? terms->n : 0;
	pthread_mutex_unlock(&share->lock);
}
