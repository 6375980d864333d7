/** Adds a query of Ask to a dashboard, as a panel with the picture that the query has. */
import { Failure } from '../objects.ts';
import type { AddedQuery } from '../page_table.ts';
import { type Dashboard, PANELS_MAX, type Panel, type Scalar, emptyDashboard, freshId, readDashboard } from './document.ts';
import { faultText, jsonOf } from './editing.ts';
import { freePlace } from './layout.ts';
import { readDashboardObject, saveDashboard } from './saved.ts';

const TITLE_LENGTH = 60;

/** Whole numbers beyond 2^53 have no place in a document; they become text, which the server converts. */
const scalarOf = (value: Scalar | bigint): Scalar => (typeof value === 'bigint' ? String(value) : value);

export function panelOf({ question, form, measure }: AddedQuery, panels: readonly Panel[]): Panel {
  const small = form === 'value';
  const place = freePlace(panels, small ? 3 : 6, small ? 4 : 8);
  const title = question.text.replace(/\s+/g, ' ').replace(/^select\s+/i, '').trim().slice(0, TITLE_LENGTH);
  return {
    id: freshId(panels),
    ...(title === '' ? {} : { title }),
    ...place,
    source: {
      kind: 'live', text: question.text,
      ...(question.dialect === 'bullet' ? { dialect: question.dialect } : {}),
      ...(question.parameters.length === 0 ? {} : { parameters: question.parameters.map(scalarOf) }),
    },
    show: { as: form, ...(measure === null ? {} : { options: { measure } }) },
  };
}

export async function addQuery(name: string, create: boolean, query: AddedQuery): Promise<void> {
  if (create) {
    const made = emptyDashboard(name);
    await saveDashboard(name, jsonOf({ ...made, panels: [panelOf(query, [])] }), null, null);
    return;
  }
  const saved = await readDashboardObject(name);
  const read = readDashboard(saved.content);
  if ('faults' in read) throw new Failure({ title: 'The dashboard cannot be read.', status: 0, detail: faultText(read.faults) });
  const { panels } = read.dashboard;
  if (panels.length >= PANELS_MAX) throw new Failure({ title: `A dashboard has at most ${PANELS_MAX} panels.`, status: 0 });
  const next: Dashboard = { ...read.dashboard, panels: [...panels, panelOf(query, panels)] };
  await saveDashboard(name, jsonOf(next), saved.comment, saved.revision);
}
