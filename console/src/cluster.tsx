/** The members and partitions of a cluster. */
import type { JSX } from 'preact';

export function Cluster(): JSX.Element {
  return (
    <main id="main" class="page cluster-page">
      <h1>Cluster</h1>
    </main>
  );
}
