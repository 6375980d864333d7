/** The pages that are loaded when the reader first opens one of them. Built into `pages.js`. */
import { Cluster } from './cluster.tsx';
import { Dashboards } from './dashboards/page.tsx';
import { Jobs } from './jobs.tsx';
import { Operations } from './operations.tsx';
import type { Pages } from './page_table.ts';
import { Search } from './search.tsx';
import { Streams } from './streams.tsx';
import { Views } from './views.tsx';

export { addQuery } from './dashboards/add_query.ts';

export const pages: Pages = { dashboards: Dashboards, streams: Streams, views: Views, jobs: Jobs, operations: Operations, search: Search, cluster: Cluster };
