/** The dashboards that the server has saved, for the pages that only list them. */
import { signal } from '@preact/signals';
import { getText } from './client.ts';
import { type Json, parseJson } from './json.ts';
import { hasSaved } from './page_table.ts';
import { isObject } from './protocol.ts';

export interface DashboardFacts {
  name: string;
  title: string;
  comment: string;
  /** As the server writes it. */
  changed: string;
  bytes: number;
  revision: number;
}

const LAST = 50;
export const DASHBOARDS = 'v1/saved/dashboards';

/** The dashboards that changed last, the newest first; null before they are known. */
export const lastDashboards = signal<DashboardFacts[] | null>(null);

export function readFacts(data: Json): DashboardFacts[] {
  const objects = isObject(data) && Array.isArray(data.objects) ? data.objects : [];
  const text = (value: Json | undefined) => (typeof value === 'string' ? value : '');
  return objects.filter(isObject).map(({ name, title, comment, changed, bytes, revision }) => ({
    name: text(name), title: text(title), comment: text(comment), changed: text(changed),
    bytes: typeof bytes === 'number' ? bytes : 0, revision: typeof revision === 'number' ? revision : 0,
  }));
}

/** Reads the dashboards that changed last anew; a failure leaves the earlier ones. */
export async function readLastDashboards(): Promise<void> {
  if (!hasSaved()) return;
  try {
    lastDashboards.value = readFacts(parseJson(await getText(`${DASHBOARDS}?sort=changed&limit=${LAST}`)));
  } catch {
    // The page of dashboards says why they cannot be read.
  }
}

/** The first dashboards by name. */
export const dashboardsByName = async (most: number): Promise<DashboardFacts[]> => readFacts(parseJson(await getText(`${DASHBOARDS}?limit=${most}`)));
