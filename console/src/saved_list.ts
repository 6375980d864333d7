/** The dashboards that the server has saved, for the pages that only list them. */
import { signal } from '@preact/signals';
import { getText } from './client.ts';
import { type Json, parseJson } from './json.ts';
import { features } from './page_table.ts';
import { isObject } from './protocol.ts';

export interface SavedFacts {
  name: string;
  title: string;
  comment: string;
  /** As the server writes it. */
  changed: string;
  bytes: number;
  revision: number;
}

const LISTED_MAX = 1000;

/** Null before they are known. */
export const dashboards = signal<SavedFacts[] | null>(null);

export function readFacts(data: Json): SavedFacts[] {
  const objects = isObject(data) && Array.isArray(data.objects) ? data.objects : [];
  const text = (value: Json | undefined) => (typeof value === 'string' ? value : '');
  return objects.filter(isObject).map(({ name, title, comment, changed, bytes, revision }) => ({
    name: text(name), title: text(title), comment: text(comment), changed: text(changed),
    bytes: typeof bytes === 'number' ? bytes : 0, revision: typeof revision === 'number' ? revision : 0,
  }));
}

/** Reads the list anew; a failure leaves the earlier one. */
export async function readDashboards(): Promise<void> {
  if (features.value?.includes('saved') !== true) return;
  try {
    dashboards.value = readFacts(parseJson(await getText(`v1/saved/dashboards?limit=${LISTED_MAX}`)));
  } catch {
    // The page of dashboards says why they cannot be read.
  }
}

export const byChange = (list: readonly SavedFacts[]): SavedFacts[] => [...list].sort((a, b) => (a.changed < b.changed ? 1 : a.changed > b.changed ? -1 : 0));
