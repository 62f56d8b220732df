SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE FUNCTION public.congenial_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'a ledger is append-only'; END $$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.congenial_datasets (
    name text NOT NULL,
    folded text NOT NULL,
    neighbours text NOT NULL,
    currency text NOT NULL,
    cap text NOT NULL,
    who text NOT NULL,
    at text NOT NULL,
    software text NOT NULL,
    hash text NOT NULL,
    delta text
);
CREATE TABLE public.congenial_ledger_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.congenial_spends (
    dataset text NOT NULL,
    release text NOT NULL,
    loss text NOT NULL,
    spent text NOT NULL,
    certificate text NOT NULL,
    invariants text NOT NULL,
    plan text NOT NULL,
    key text NOT NULL,
    who text NOT NULL,
    at text NOT NULL,
    software text NOT NULL,
    previous text NOT NULL,
    hash text NOT NULL,
    number integer NOT NULL,
    CONSTRAINT congenial_spends_number_check CHECK ((number > 0))
);
CREATE TABLE public.congenial_withdrawals (
    dataset text NOT NULL,
    release text NOT NULL,
    reason text NOT NULL,
    who text NOT NULL,
    at text NOT NULL,
    software text NOT NULL,
    previous text NOT NULL,
    hash text NOT NULL,
    number integer NOT NULL,
    replaced_by text,
    CONSTRAINT congenial_withdrawals_number_check CHECK ((number > 1))
);
INSERT INTO public.congenial_datasets VALUES ('town', 'town', 'bounded', 'epsilon', '4', 'Ada', '2026-11-18T06:55:35Z', 'congenial 0.1.0', '3e3ad20c2a95c0ecc3f4194081d5003b3a55f94bdb912bad548751b09dca148b', NULL);
INSERT INTO public.congenial_datasets VALUES ('tree', 'tree', 'bounded', 'rho', '4', 'Ada', '2026-11-18T06:55:35Z', 'congenial 0.1.0', 'a52800bf01b540867f0e320ee76f9a3247e10386ef55e993bf7f82fd28015ddf', NULL);
INSERT INTO public.congenial_ledger_version VALUES ('v0002');
INSERT INTO public.congenial_spends VALUES ('town', 'first', '199999629617891/200000000000000', '199999629617891/200000000000000', '{"epsilon":"199999629617891/200000000000000","k":1,"kind":"weighted_fixed_total","neighbours":"bounded","orders":"all","rho":"585107721/1250000000","rho_at_all_orders":"585107721/1250000000","statement":"3 cells that are alike, with an exact total, their lower limit weighted: D = 0.9676 plus 0.0325 for conditioning","without_invariants":"24189/25000"}', '[["total","31"],["sex=female","16"],["sex=male","15"]]', '6d783ecab9c6817107d7e7947cb047b0ea5df6febad8918fd13e0ad34bee79f3', '8dbd5eb9dcdb123b24e799721de946d424bcc39fb4c95ea3e96b4d268fb8099a', 'Ada', '2026-11-18T06:55:36Z', 'congenial 0.1.0', '3e3ad20c2a95c0ecc3f4194081d5003b3a55f94bdb912bad548751b09dca148b', 'e91f8bb15f20a924a1d35127a87b2e4f9f843b17bd034f00be31ba7f0ac4b055', 1);
INSERT INTO public.congenial_spends VALUES ('town', 'second', '199999629617891/200000000000000', '199999629617891/100000000000000', '{"epsilon":"199999629617891/200000000000000","k":1,"kind":"composition","neighbours":"bounded","orders":"all","rho":"585107721/1250000000","rho_at_all_orders":"585107721/1250000000","statement":"2 areas, one record: the worst area alone","without_invariants":"24189/25000"}', '[["county North: total","31"],["county South: total","19"],["county North: sex=female","16"],["county South: sex=female","9"],["county North: sex=male","15"],["county South: sex=male","10"]]', '637a9be9ed6f83331642113e466ea032c6a05ba4cc55c1b224e41f38f2910905', '3ca99d7772800e8b438f45b55bfa8a5e0f050bbe9cf0f9521ded49c552c15bbd', 'Ada', '2026-11-18T06:55:36Z', 'congenial 0.1.0', 'e91f8bb15f20a924a1d35127a87b2e4f9f843b17bd034f00be31ba7f0ac4b055', '4e53926b385c076c736eac532aa7e402d06581abf82d5b8a9307d9d56b3db661', 2);
INSERT INTO public.congenial_spends VALUES ('tree', 'blocks', '1', '1', '{"epsilon":null,"k":1,"kind":"chain_gaussian","neighbours":"bounded","orders":"integer","rho":"1","rho_at_all_orders":"1064559537352557/1000000000000000","statement":"a chain of 2 levels, each drawn given what is released above it: rho 0.7, 0.3001, added up","without_invariants":"500003221427/500000000000"}', '[["county 1: total","8"],["county 2: total","4"],["total, of each block","in the bundle; SHA-256 of the tree with all values fda1c4725b592bd7730b0984bd42bd70811c3d4f02035e763e8350b3b2aaec6c"]]', '1366a4d3681e929b29177d3e54468a09ed81679fc63ba2276f7e94f3632dd5e3', '805b3d446f5ca5ab8bc898bf4faef3fbc903f88b9f6260867fc049a3925f2b4d', 'Ada', '2026-11-18T06:55:36Z', 'congenial 0.1.0', 'a52800bf01b540867f0e320ee76f9a3247e10386ef55e993bf7f82fd28015ddf', '19da236873e5ef07769bc04091b857591cdbbdbc1511a4aa94ee13d1ae77b828', 1);
INSERT INTO public.congenial_withdrawals VALUES ('town', 'first', 'a mistake in the data', 'Ada', '2026-11-18T06:55:36Z', 'congenial 0.1.0', '4e53926b385c076c736eac532aa7e402d06581abf82d5b8a9307d9d56b3db661', '8e8bca7642354dfbcd6976a380c7666671925153389ea170eeb2b6da46fc645d', 3, NULL);
ALTER TABLE ONLY public.congenial_datasets
    ADD CONSTRAINT congenial_datasets_folded_key UNIQUE (folded);
ALTER TABLE ONLY public.congenial_datasets
    ADD CONSTRAINT congenial_datasets_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.congenial_ledger_version
    ADD CONSTRAINT congenial_ledger_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.congenial_spends
    ADD CONSTRAINT congenial_spends_dataset_release_key UNIQUE (dataset, release);
ALTER TABLE ONLY public.congenial_spends
    ADD CONSTRAINT congenial_spends_pkey PRIMARY KEY (dataset, number);
ALTER TABLE ONLY public.congenial_withdrawals
    ADD CONSTRAINT congenial_withdrawals_pkey PRIMARY KEY (dataset, number);
CREATE TRIGGER congenial_datasets_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.congenial_datasets FOR EACH STATEMENT EXECUTE FUNCTION public.congenial_append_only();
CREATE TRIGGER congenial_spends_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.congenial_spends FOR EACH STATEMENT EXECUTE FUNCTION public.congenial_append_only();
CREATE TRIGGER congenial_withdrawals_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.congenial_withdrawals FOR EACH STATEMENT EXECUTE FUNCTION public.congenial_append_only();
ALTER TABLE ONLY public.congenial_spends
    ADD CONSTRAINT congenial_spends_dataset_fkey FOREIGN KEY (dataset) REFERENCES public.congenial_datasets(name);
ALTER TABLE ONLY public.congenial_withdrawals
    ADD CONSTRAINT congenial_withdrawals_dataset_release_fkey FOREIGN KEY (dataset, release) REFERENCES public.congenial_spends(dataset, release);
ALTER TABLE ONLY public.congenial_withdrawals
    ADD CONSTRAINT congenial_withdrawals_dataset_replaced_by_fkey FOREIGN KEY (dataset, replaced_by) REFERENCES public.congenial_spends(dataset, release);
