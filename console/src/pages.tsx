/** The pages that are loaded when the reader first opens one of them. Built into `pages.js`. */
import { Cluster } from './cluster.tsx';
import { addQuery } from './dashboards/add_query.ts';
import { Dashboards } from './dashboards/page.tsx';
import { Jobs } from './jobs.tsx';
import { KeepItems } from './keep_form.tsx';
import { Operations } from './operations.tsx';
import type { Later, Pages } from './page_table.ts';
import { showList } from './saved_list.tsx';
import { openByName } from './saved_open.tsx';
import { save } from './saved_save.tsx';
import { Search } from './search.tsx';
import { Streams } from './streams.tsx';
import { Views } from './views.tsx';

export const pages: Pages = { dashboards: Dashboards, streams: Streams, views: Views, jobs: Jobs, operations: Operations, search: Search, cluster: Cluster };

export const later: Later = { save, list: showList, open: (name, origin) => void openByName(name, origin), KeepItems, addQuery };
