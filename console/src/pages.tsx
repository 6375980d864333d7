/** The pages that are loaded when the reader first opens one of them. Built into `pages.js`. */
import { Cluster } from './cluster.tsx';
import { Jobs } from './jobs.tsx';
import { Operations } from './operations.tsx';
import { KeepItems } from './keep_form.tsx';
import type { Later, Pages } from './page_table.ts';
import { showList } from './saved_list.tsx';
import { openByName } from './saved_open.tsx';
import { save } from './saved_save.tsx';
import { Search } from './search.tsx';
import { Streams } from './streams.tsx';
import { Views } from './views.tsx';

export const pages: Pages = { streams: Streams, views: Views, jobs: Jobs, operations: Operations, search: Search, cluster: Cluster };

export const later: Later = { save, list: showList, open: (name, origin) => void openByName(name, origin), KeepItems };
