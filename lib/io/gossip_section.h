/* The section `gossip` of a configuration, which agent and coordinator share. */
#pragma once

#include "io/conf.h"
#include "io/conf_copy.h"

/* What the table fills. */
struct gossip_fields {
	const char *listen, *advertise, *secret_file;
	const json_t *seeds; /* NULL: none */
};

/* The object `gossip`, of struct gossip_fields. */
extern const struct conf_table gossip_table;

/* All of it is owned. */
struct gossip_section {
	char *listen; /* NULL: there is no gossip */
	char *advertise, *secret_file;
	char **seeds;
	size_t n_seeds;
};

/* Whether what is there goes together. `object` is the path of `gossip`; *insecure: it may do without a secret anywhere; NULL: there is no such option. */
void gossip_section_check(struct conf_reader *r, const struct conf_path *object,
			  const struct gossip_fields *f, const bool *insecure);
/* `given`: the object is there; else *ret_conf stays empty. */
void gossip_section_fill(struct conf_copier *c, const struct conf_path *object,
			 const struct gossip_fields *f, bool given,
			 struct gossip_section *ret_conf);
void gossip_section_release(struct gossip_section *conf);
