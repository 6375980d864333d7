/** Calls for saved dashboards. Each throws a `Failure` with the server's problem. */
import { type Json, formatJson, parseJson } from '../json.ts';
import { Failure, call, getJson, readOnly } from '../objects.ts';
import { isObject } from '../protocol.ts';

const addressOf = (name: string): string => `v1/saved/dashboards/${encodeURIComponent(name)}`;

export interface Saved {
  name: string;
  revision: number;
  comment: string | null;
  changed: string;
  /** Gone when the server ends, if false. */
  kept: boolean;
  content: Json;
}

function readSaved(data: Json): Saved {
  if (!isObject(data) || typeof data.revision !== 'number' || data.content === undefined) throw new Failure({ title: 'The answer has no saved object.', status: 0 });
  return {
    name: typeof data.name === 'string' ? data.name : '',
    revision: data.revision,
    comment: typeof data.comment === 'string' ? data.comment : null,
    changed: typeof data.changed === 'string' ? data.changed : '',
    kept: data.kept !== false,
    content: data.content,
  };
}

export const readDashboardObject = async (name: string, signal?: AbortSignal): Promise<Saved> => readSaved(await getJson(addressOf(name), signal));

/** `revision`: the one that is replaced; null: there must be none of this name. */
export async function saveDashboard(name: string, content: Json, comment: string | null, revision: number | null): Promise<Saved> {
  if (readOnly) throw new Failure({ title: 'This console is read-only.', status: 403 });
  const answer = await call(addressOf(name), {
    method: 'PUT',
    headers: { 'content-type': 'application/json', ...(revision === null ? { 'if-none-match': '*' } : { 'if-match': `"${revision}"` }) },
    body: formatJson({ comment, content }),
  });
  return readSaved(parseJson(await answer.text()));
}

export async function deleteDashboard(name: string, revision: number): Promise<void> {
  if (readOnly) throw new Failure({ title: 'This console is read-only.', status: 403 });
  await call(addressOf(name), { method: 'DELETE', headers: { 'if-match': `"${revision}"` } });
}

/** The text of a saved query, to choose its picture; empty if it cannot be read. */
export async function savedQueryText(name: string, signal: AbortSignal): Promise<string> {
  const data = await getJson(`v1/saved/queries/${encodeURIComponent(name)}`, signal).catch(() => null);
  return isObject(data) && typeof data.content === 'string' ? data.content : '';
}
