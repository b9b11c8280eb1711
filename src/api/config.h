/* SPDX-License-Identifier: MIT */
/* KEY=VALUE settings: `locum run --set`, LOCUM_SET, locum_configure(). */
#ifndef LOCUM_API_CONFIG_H
#define LOCUM_API_CONFIG_H

#include <stddef.h>

#include "vm/config.h"

/**
 * config_parse() - apply "KEY=VALUE,KEY=VALUE..." to @cfg
 * @error: receives one line on failure; may be NULL if @size is 0
 * Return: 0; -EINVAL with @cfg unchanged.
 */
int config_parse(struct vm_config *cfg, const char *settings, char *error,
		 size_t size) must_check;

/** config_set() - config_parse() into the settings of VMs to come */
int config_set(const char *settings, char *error, size_t size) must_check;

/** config_get() - copy of the settings for a new VM */
void config_get(struct vm_config *out);

/**
 * config_init() - read LOCUM_SET once
 * Return: 0; -EINVAL after a warning (the first open then fails).
 */
int config_init(void) must_check;

#endif
