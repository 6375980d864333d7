/** The calls for saved queries. A write names the revision that it replaces, so no version of somebody else is lost unseen. */
import { type Json, formatJson } from './json.ts';
import { Failure, getJson, send } from './objects.ts';
import { type SavedQuery, readSaved, savedPath } from './saved_object.ts';

function whole(data: Json): SavedQuery {
  const saved = readSaved(data);
  if (saved === null) throw new Failure({ title: 'The answer is no saved query.', status: 0 });
  return saved;
}

export const read = async (name: string): Promise<SavedQuery> => whole(await getJson(savedPath(name)));

/** The query of this name; null if there is none. */
export async function readIfThere(name: string): Promise<SavedQuery | null> {
  try {
    return await read(name);
  } catch (error) {
    if (error instanceof Failure && error.problem.status === 404) return null;
    throw error;
  }
}

/** The condition of a write. `replaces`: the revision that is there; null: only if there is none of this name. Else the server answers 412. */
export const conditionOf = (replaces: number | null): { [name: string]: string } => (replaces === null ? { 'if-none-match': '*' } : { 'if-match': `"${replaces}"` });

export async function write(name: string, comment: string | null, { content, dialect }: Pick<SavedQuery, 'content' | 'dialect'>, replaces: number | null): Promise<SavedQuery> {
  return whole(await send('PUT', savedPath(name), formatJson({ comment, content, dialect }), undefined, conditionOf(replaces)));
}

export const remove = (name: string, revision: number): Promise<unknown> => send('DELETE', savedPath(name), null, undefined, conditionOf(revision));

export const isConflict = (error: unknown): boolean => error instanceof Failure && error.problem.status === 412;
