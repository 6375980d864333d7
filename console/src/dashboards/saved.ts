/** Calls for saved dashboards. Each throws a `Failure` with the server's problem. */
import { DASHBOARDS } from '../dashboard_list.ts';
import { type Json, formatJson } from '../json.ts';
import { Failure, getJson, readOnly, send } from '../objects.ts';
import { isObject } from '../protocol.ts';
import { conditionOf } from '../saved_calls.ts';
import { nameFault, savedPath } from '../saved_object.ts';

function addressOf(name: string): string {
  const fault = nameFault(name);
  if (fault !== null) throw new Failure({ title: fault, status: 0 });
  return savedPath(name, DASHBOARDS);
}

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
  return readSaved(await send('PUT', addressOf(name), formatJson({ comment, content }), undefined, conditionOf(revision)));
}

export async function deleteDashboard(name: string, revision: number): Promise<void> {
  if (readOnly) throw new Failure({ title: 'This console is read-only.', status: 403 });
  await send('DELETE', addressOf(name), null, undefined, conditionOf(revision));
}

/** The text of a saved query, to choose its picture; empty if it cannot be read. */
export async function savedQueryText(name: string, signal: AbortSignal): Promise<string> {
  const data = await getJson(savedPath(name), signal).catch(() => null);
  return isObject(data) && typeof data.content === 'string' ? data.content : '';
}
